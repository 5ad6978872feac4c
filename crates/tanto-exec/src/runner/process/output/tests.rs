//! Tests of output that is too large for memory.

use tanto_testing::Scratch;

use super::*;

fn overflow(place: &Scratch) -> Overflow {
    Overflow { dir: place.at(""), writer: Rc::default() }
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
fn small_output_stays_in_memory() {
    let place = Scratch::new("output");
    let text = lines(MOST_IN_MEMORY);
    let (output, kept) = taken(&text, Some(&overflow(&place))).into_kept();
    assert!(output == text && kept == job::Capture::Complete);
}

#[test]
fn large_output_spills_to_an_unnamed_file() {
    let place = Scratch::new("output");
    let text = lines(MOST_IN_MEMORY + 5 * ENDS + 8);
    let (output, kept) = taken(&text, Some(&overflow(&place))).into_kept();
    let job::Capture::Spilled(mut spilled) = kept else { panic!("{kept:?}") };
    assert!(spilled.bytes() == text);
    assert_eq!(std::fs::read_dir(place.at("")).unwrap().count(), 0);
    let left_out = text.len() - 2 * ENDS;
    let between = format!("\n[... {left_out} bytes are not shown ...]\n");
    assert!(output == [&text[..ENDS], between.as_bytes(), &text[text.len() - ENDS..]].concat());
    spilled.append(b"more").unwrap();
    assert!(spilled.bytes() == [&text[..], b"more"].concat());
}

#[test]
fn the_last_bytes_are_available_at_any_time() {
    let text = lines(MOST_IN_MEMORY + ENDS + 8);
    for printed in [0, 1, 100, 5000, MOST_IN_MEMORY, MOST_IN_MEMORY + 1, text.len()] {
        let output = taken(&text[..printed], None);
        assert!(output.last(4096) == &text[printed.saturating_sub(4096)..printed], "{printed}");
    }
}

#[test]
fn a_missing_spill_directory_falls_back_to_tmp() {
    let place = Scratch::new("output");
    let overflow = Overflow { dir: place.at("none"), writer: Rc::default() };
    let text = lines(MOST_IN_MEMORY + 8);
    let (_, kept) = taken(&text, Some(&overflow)).into_kept();
    assert!(matches!(kept, job::Capture::Spilled(spilled) if spilled.bytes() == text));
}

#[test]
fn a_full_disk_drops_the_middle_with_a_note() {
    let text = lines(MOST_IN_MEMORY + ENDS);
    let mut output = taken(&text[..MOST_IN_MEMORY], None);
    output.rest = Some(Rest::begin(&mut output.bytes, ENDS, None));
    let open = || File::options().write(true).open("/dev/full");
    if let Some(rest) = &mut output.rest {
        rest.file = Some(Rc::<Writer>::default().begin(open).map(|stream| Spill { stream, file: Arc::default() }));
    }
    output.push(&text[MOST_IN_MEMORY..], None);
    let (shown, kept) = output.into_kept();
    assert!(kept == job::Capture::Truncated);
    assert!(shown.starts_with(&text[..ENDS]) && shown.ends_with(&text[text.len() - ENDS..]));
    assert!(String::from_utf8_lossy(&shown).contains("lost: No space left on device"));
}

#[test]
fn without_spilling_the_middle_is_dropped() {
    let text = lines(MOST_IN_MEMORY + ENDS);
    let shown = taken(&text, None).into_kept().0;
    let between = format!("\n[... {} bytes are left out ...]\n", text.len() - 2 * ENDS);
    assert!(shown == [&text[..ENDS], between.as_bytes(), &text[text.len() - ENDS..]].concat());
}

#[test]
fn output_limits_keep_both_ends() {
    let text = lines(1 << 20);
    for most in [0, 1, 1000, 100_000] {
        let mut output = Output::new(Some(most));
        text.chunks(7777).for_each(|chunk| output.push(chunk, None));
        assert_eq!(output.total(), text.len() as u64);
        let half = most as usize / 2;
        let between = format!("\n[... {} bytes are left out ...]\n", text.len() - 2 * half);
        assert!(output.into_kept().0 == [&text[..half], between.as_bytes(), &text[text.len() - half..]].concat());
    }
}
