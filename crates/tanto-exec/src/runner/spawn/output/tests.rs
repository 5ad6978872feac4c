//! Tests of output that is too large for memory.

use tanto_testing::Scratch;

use super::*;

fn overflow(place: &Scratch) -> Overflow {
    Overflow { dir: place.at("output"), writer: Rc::default() }
}

/// Numbered lines of eight bytes, so many bytes of them.
fn lines(bytes: usize) -> Vec<u8> {
    (0..bytes / 8).flat_map(|number| format!("{number:07}\n").into_bytes()).collect()
}

fn taken(bytes: &[u8], overflow: Option<&Overflow>) -> Output {
    let mut output = Output::new(None);
    bytes.chunks(60_001).for_each(|chunk| output.push(chunk, overflow));
    output
}

#[test]
fn what_fits_is_shown_whole_and_leaves_no_file() {
    let place = Scratch::new("output");
    let text = lines(MOST_IN_MEMORY);
    let output = taken(&text, Some(&overflow(&place)));
    assert!(output.is_whole());
    assert!(output.into_shown() == text);
    assert!(!place.at("output").exists());
}

#[test]
fn of_more_both_ends_are_shown_and_the_file_has_all() {
    let place = Scratch::new("output");
    let text = lines(MOST_IN_MEMORY + 5 * SHOWN + 8);
    let output = taken(&text, Some(&overflow(&place)));
    assert!(!output.is_whole());
    let shown = output.into_shown();
    let file = fs::read_dir(place.at("output")).unwrap().next().unwrap().unwrap().path();
    assert!(fs::read(&file).unwrap() == text);
    let left_out = text.len() - 2 * SHOWN;
    let between = format!("\n[... {left_out} bytes are not shown; all of it is in {} ...]\n", file.display());
    assert!(shown == [&text[..SHOWN], between.as_bytes(), &text[text.len() - SHOWN..]].concat());
}

#[test]
fn a_full_disk_loses_the_middle_and_says_so() {
    let text = lines(MOST_IN_MEMORY + SHOWN);
    let mut output = taken(&text[..MOST_IN_MEMORY], None);
    output.rest = Some(Rest::begin(&mut output.bytes, SHOWN, None));
    let open = || fs::File::options().write(true).open("/dev/full");
    if let Some(rest) = &mut output.rest {
        rest.file = Some(Rc::<Writer>::default().begin(open).map(|stream| Kept { stream, path: Arc::default() }));
    }
    output.push(&text[MOST_IN_MEMORY..], None);
    let shown = output.into_shown();
    assert!(shown.starts_with(&text[..SHOWN]) && shown.ends_with(&text[text.len() - SHOWN..]));
    assert!(String::from_utf8_lossy(&shown).contains("it is lost: No space left on device"));
}

#[test]
fn without_a_place_the_middle_is_left_out() {
    let text = lines(MOST_IN_MEMORY + SHOWN);
    let shown = taken(&text, None).into_shown();
    let between = format!("\n[... {} bytes are left out ...]\n", text.len() - 2 * SHOWN);
    assert!(shown == [&text[..SHOWN], between.as_bytes(), &text[text.len() - SHOWN..]].concat());
}

#[test]
fn of_a_flood_no_more_is_kept_than_is_said() {
    let text = lines(1 << 20);
    for most in [0, 1, 1000, 100_000] {
        let mut output = Output::new(Some(most));
        text.chunks(7777).for_each(|chunk| output.push(chunk, None));
        assert_eq!(output.total(), text.len() as u64);
        let half = most as usize / 2;
        let between = format!("\n[... {} bytes are left out ...]\n", text.len() - 2 * half);
        assert!(output.into_shown() == [&text[..half], between.as_bytes(), &text[text.len() - half..]].concat());
    }
}

#[test]
fn the_oldest_files_go() {
    let place = Scratch::new("output");
    let dir = place.at("output");
    let time = |number: usize| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(number as u64);
    for number in 0..FILES_KEPT + 3 {
        create(&dir).unwrap().0.set_modified(time(number)).unwrap();
    }
    let entries = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().modified().unwrap());
    let mut times: Vec<SystemTime> = entries.collect();
    times.sort();
    assert_eq!(times, (3..FILES_KEPT + 3).map(time).collect::<Vec<_>>());
}
