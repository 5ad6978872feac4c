//! A tree of Chromium's shape, as GN writes it: a manifest for each target, whose objects read many headers.

use std::fmt::Write as _;
use std::fs;
use std::io::Result;
use std::path::Path;

use crate::Options;
use crate::compiler::{self, Headers, flags};
use crate::files::Files;
use crate::hashes::random;
use crate::state::{Edge, State, write_entries};

const HEADER_PREFIX: &str = "../../base/headers";
const INCLUDES: &str = "-I../.. -Igen -I../../buildtools/third_party/libc++ -I../../third_party/abseil-cpp \
                        -I../../third_party/boringssl/src/include";
const ACTIONS: u64 = 5;
const ACTION_SCRIPT: &str = "../../build/action.py";
const TARGETS_IN_COMPONENT: u64 = 40;

const RULES: &str = "\
rule cxx
  command = tools/fakecc -MD -MF ${out}.d ${defines} ${include_dirs} ${cflags} ${cflags_cc} -DFAKE=${fake} -c ${in} -o ${out}
  description = CXX ${out}
  depfile = ${out}.d
  deps = gcc
rule alink
  command = tools/fakecc -r -c -s -D @${out}.rsp -o ${out}
  description = AR ${out}
  rspfile = ${out}.rsp
  rspfile_content = ${in}
rule stamp
  command = tools/fakecc --stamp -o ${out}
  description = STAMP ${out}
rule copy
  command = tools/fakecc --copy ${in} -o ${out}
  description = COPY ${in} ${out}
rule action
  command = tools/fakecc --action ${args} -o ${out}
  description = ACTION ${out}
  restat = 1
  pool = action_pool
";

struct Tree {
    seed: u64,
    headers: Headers,
    state: State,
    files: Files,
}

/// A target, while its manifest is made.
struct Target {
    number: u64,
    /// Its directory below `obj`.
    dir: String,
    stamp: String,
    defines: String,
    cflags: String,
    cflags_cc: String,
    manifest: String,
}

/// Writes the tree; its build directory is `out/Default`.
pub fn write(top: &Path, options: &Options) -> Result<()> {
    let scaled = |count: f64| (count * options.scale) as u64;
    let headers = Headers { seed: options.seed, average: options.headers.unwrap_or(400), pool: scaled(30_000.0) };
    let dir = top.join("out/Default");
    fs::create_dir_all(&dir)?;
    compiler::install(&dir)?;
    let state = State::create(&dir.join(".b"), HEADER_PREFIX, headers.pool)?;
    let mut files = Files::new(dir.clone(), options.files);
    for header in &state.headers {
        files.source(header)?;
    }
    let mut tree = Tree { seed: options.seed, headers, state, files };
    let (mut toolchain, mut all) = (RULES.to_owned(), String::new());
    for number in 0..scaled(4_900.0) {
        let manifest = tree.write_target(&dir, number)?;
        append(&mut toolchain, format_args!("subninja {manifest}\n"));
        append(&mut all, format_args!(" target_{number}"));
    }
    tree.files.source(ACTION_SCRIPT)?;
    fs::write(dir.join("toolchain.ninja"), toolchain)?;
    let pools = "pool link_pool\n  depth = 4\npool action_pool\n  depth = 8\n";
    let targets = format!("build all: phony{}\nbuild nothing: phony\ndefault all\n", blank_unless(&all));
    write_entries(&dir, &format!("ninja_required_version = 1.7.2\n{pools}subninja toolchain.ninja\n{targets}"))?;
    println!("chromium: {} logged edges, {} files on disk", tree.state.edges, tree.files.count);
    tree.state.finish(&dir.join(".b"))
}

/// A list of nothing still has the blank before it.
fn blank_unless(list: &str) -> &str {
    if list.is_empty() { " " } else { list }
}

fn append(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a string takes all");
}

fn target_dir(number: u64) -> String {
    format!("chrome/browser/component_{}/target_{number}", number / TARGETS_IN_COMPONENT)
}

impl Tree {
    /// Returns the path of its manifest.
    fn write_target(&mut self, build: &Path, number: u64) -> Result<String> {
        let dir = target_dir(number);
        let mut target = Target {
            number,
            stamp: format!("obj/{dir}/inputdeps.stamp"),
            defines: flags(self.seed ^ number, 600),
            cflags: flags(self.seed ^ number ^ 1, 900),
            cflags_cc: flags(self.seed ^ number ^ 2, 200),
            manifest: String::with_capacity(20_000),
            dir,
        };
        let Target { manifest, defines, cflags, cflags_cc, .. } = &mut target;
        append(
            manifest,
            format_args!(
                "defines = {defines}\ninclude_dirs = {INCLUDES}\ncflags = {cflags}\ncflags_cc = {cflags_cc}\n\
                 target_output_name = libtarget_{number}\n\n"
            ),
        );
        self.add_stamp(&mut target)?;
        (0..ACTIONS).try_for_each(|action| self.add_action(&mut target, action))?;
        let count = 6 + random(self.seed, number, 4) % 13;
        let objects = (0..count).map(|object| self.add_object(&mut target, object)).collect::<Result<Vec<String>>>()?;
        self.add_library(&mut target, &objects)?;
        let path = format!("obj/{}/target_{number}.ninja", target.dir);
        if let Some(parent) = build.join(&path).parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(build.join(&path), target.manifest)?;
        Ok(path)
    }

    /// Adds the stamp that waits for headers which earlier targets generate.
    fn add_stamp(&mut self, target: &mut Target) -> Result<()> {
        let earlier = |salt| random(self.seed, target.number, salt) % target.number;
        let generated = |other| format!("obj/{}/gen_{}.h", target_dir(other), other % ACTIONS);
        let mut inputs: Vec<(String, bool)> =
            (0..4.min(target.number)).map(|salt| (generated(earlier(salt)), true)).collect();
        if inputs.is_empty() {
            inputs.push(("../../BUILD.gn".to_owned(), false));
            self.files.source("../../BUILD.gn")?;
        }
        append(&mut target.manifest, format_args!("build {}: stamp", target.stamp));
        inputs.iter().for_each(|(path, _)| append(&mut target.manifest, format_args!(" {path}")));
        target.manifest.push('\n');
        let command = format!("tools/fakecc --stamp -o {}", target.stamp);
        self.record(&target.stamp, &inputs, &command, None)
    }

    fn add_action(&mut self, target: &mut Target, action: u64) -> Result<()> {
        let output = format!("obj/{}/gen_{action}.h", target.dir);
        let template = format!("../../{}/template_{action}.in", target.dir);
        let own = flags(self.seed ^ target.number ^ (action << 20), 150);
        append(
            &mut target.manifest,
            format_args!("build {output}: action {template} | {ACTION_SCRIPT}\n  args = {own}\n"),
        );
        self.files.source(&template)?;
        let inputs = [(template, false), (ACTION_SCRIPT.to_owned(), false)];
        self.record(&output, &inputs, &format!("tools/fakecc --action {own} -o {output}"), None)
    }

    /// Returns the object's path.
    fn add_object(&mut self, target: &mut Target, object: u64) -> Result<String> {
        let Headers { seed, average, pool } = self.headers;
        let Target { number, dir, stamp, defines, cflags, cflags_cc, manifest } = target;
        let id = *number * 100 + object;
        let source = format!("../../{dir}/source_file_{object}.cc");
        let output = format!("obj/{dir}/target_{number}/source_file_{object}.o");
        let fake = format!("{seed},{id},{average},{pool},{HEADER_PREFIX}");
        append(
            manifest,
            format_args!(
                "build {output}: cxx {source} || {stamp}\n  source_file_part = source_file_{object}.cc\n  \
                 source_name_part = source_file_{object}\n  fake = {fake}\n"
            ),
        );
        let command = format!(
            "tools/fakecc -MD -MF {output}.d {defines} {INCLUDES} {cflags} {cflags_cc} -DFAKE={fake} -c {source} -o {output}"
        );
        self.state.record(&Edge {
            outputs: std::slice::from_ref(&output),
            inputs: &[(source.clone(), false)],
            command: &command,
            rspfile: None,
            headers: Some(&self.headers.of(id)),
        })?;
        self.files.source(&source)?;
        self.files.output(&output)?;
        Ok(output)
    }

    fn add_library(&mut self, target: &mut Target, objects: &[String]) -> Result<()> {
        let Target { number, dir, stamp, manifest, .. } = target;
        let library = format!("obj/{dir}/libtarget_{number}.a");
        let list = objects.join(" ");
        append(
            manifest,
            format_args!(
                "\nbuild {library}: alink {list} || {stamp}\n  arflags = \n  output_extension = .a\n  output_dir = \n\
                 build target_{number}: phony {library}\n"
            ),
        );
        let inputs: Vec<(String, bool)> = objects.iter().map(|object| (object.clone(), true)).collect();
        let command = format!("tools/fakecc -r -c -s -D @{library}.rsp -o {library}");
        self.record(&library, &inputs, &command, Some((format!("{library}.rsp"), list)))
    }

    /// Records an edge that reads no headers, and creates its output.
    fn record(
        &mut self,
        output: &str,
        inputs: &[(String, bool)],
        command: &str,
        rspfile: Option<(String, String)>,
    ) -> Result<()> {
        self.state.record(&Edge { outputs: &[output.to_owned()], inputs, command, rspfile, headers: None })?;
        self.files.output(output)
    }
}
