//! A tree of Android's shape: a manifest of modules as Soong writes it, one of rules as Kati writes it, and a small third.

use std::fs::{self, File};
use std::io::{BufWriter, Result, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::Options;
use crate::compiler::{self, Headers, flags};
use crate::files::Files;
use crate::hashes::random;
use crate::state::{Edge, OUTPUT_TIME, State, create, write_entries};

const OBJECTS_IN_MODULE: u64 = 6;
const HEADER_PREFIX: &str = "frameworks/headers";
const COMPILER: &str = "tools/fakecc";
/// How Soong's commands begin.
const PREFIX: &str = "PWD=/proc/self/cwd tools/fakecc";
const AREAS: [&str; 8] = [
    "frameworks/base/services",
    "frameworks/native/libs",
    "system/core",
    "packages/modules/Connectivity",
    "hardware/interfaces/radio",
    "external/llvm/lib",
    "art/runtime",
    "bionic/libc",
];
const KATI_OUT: &str = "out/target/product/generic_x86_64/obj/SHARED_LIBRARIES";
/// Outputs of Kati's in one phony group.
const GROUP: usize = 500;
const IMAGES: u64 = 16;

const RULES: &str = "\
rule g.cc.cc
    command = PWD=/proc/self/cwd ${g.config.CcWrapper}${ccCmd} -c ${cFlags} -MD -MF ${out}.d -o ${out} ${in}
    depfile = ${out}.d
    deps = gcc

rule g.cc.ld
    command = PWD=/proc/self/cwd ${g.cc.ClangBin}/fakecc ${ldFlags} @${out}.rsp ${libFlags} -o ${out}
    rspfile = ${out}.rsp
    rspfile_content = ${in}

rule g.cc.strip
    command = PWD=/proc/self/cwd ${g.cc.ClangBin}/fakecc --strip ${args} -o ${out}
    description = strip ${out}

rule g.cc.toc
    command = PWD=/proc/self/cwd ${g.cc.ClangBin}/fakecc --toc ${in} -o ${out}
    restat = true

rule g.cc.meta
    command = PWD=/proc/self/cwd ${g.cc.ClangBin}/fakecc --meta ${args} -o ${out}
    description = meta ${out}
";

/// How much of everything there is. What `droid` needs comes first.
struct Sizes {
    modules: u64,
    droid_modules: u64,
    kati: u64,
    kati_droid: u64,
}

fn source_dir(module: u64) -> String {
    format!("{}/mod_{module}", AREAS[(module % 8) as usize])
}

fn out_dir(module: u64) -> String {
    format!("out/soong/.intermediates/{}/libmod_{module}/android_x86_64_silvermont_static", source_dir(module))
}

fn stripped(module: u64) -> String {
    format!("{}/libmod_{module}.so", out_dir(module))
}

fn toc(module: u64) -> String {
    format!("{}/libmod_{module}.so.toc", out_dir(module))
}

fn license(module: u64) -> String {
    format!("{}/meta_lic/libmod_{module}.meta_lic", out_dir(module))
}

struct Tree {
    seed: u64,
    sizes: Sizes,
    headers: Headers,
    /// Flags that all compiles share.
    common_flags: String,
    state: State,
    files: Files,
}

/// Writes the tree.
pub fn write(dir: &Path, options: &Options) -> Result<()> {
    let scaled = |count: f64| (count * options.scale) as u64;
    let sizes = Sizes {
        modules: scaled(39_000.0),
        droid_modules: scaled(8_500.0),
        kati: scaled(250_000.0),
        kati_droid: scaled(40_000.0),
    };
    let headers = Headers { seed: options.seed, average: options.headers.unwrap_or(200), pool: scaled(40_000.0) };
    fs::create_dir_all(dir.join("out"))?;
    compiler::install(dir)?;
    let state = State::create(&dir.join(".b"), HEADER_PREFIX, headers.pool)?;
    let mut files = Files::new(dir.to_path_buf(), options.files);
    for header in &state.headers {
        files.source(header)?;
    }
    let common_flags = flags(options.seed, 400);
    let mut tree = Tree { seed: options.seed, sizes, headers, common_flags, state, files };
    tree.write_soong(create(&dir.join("out/soong.ninja"))?)?;
    let groups = tree.write_kati(create(&dir.join("out/kati.ninja"))?)?;
    tree.write_images(create(&dir.join("out/package.ninja"))?)?;
    tree.files.output("tools/.keep")?;
    if let Ok(compiler) = File::options().write(true).open(dir.join(COMPILER)) {
        compiler.set_modified(UNIX_EPOCH + Duration::from_secs(OUTPUT_TIME))?;
    }
    let subninjas = ["kati", "package", "soong"].map(|name| format!("subninja out/{name}.ninja\n")).concat();
    write_entries(dir, &format!("pool highmem_pool\n depth = 2\n{subninjas}"))?;
    tree.report(groups);
    tree.state.finish(&dir.join(".b"))
}

impl Tree {
    fn report(&self, groups: usize) {
        let logged = self.state.edges;
        let others = groups as u64 + 4 + IMAGES;
        println!("aosp: {logged} logged edges, {others} others, {} files on disk", self.files.count);
    }

    fn write_soong(&mut self, mut out: BufWriter<File>) -> Result<()> {
        let common = &self.common_flags;
        writeln!(
            out,
            "# soong-style\n\ng.cc.ClangBin = tools\ng.config.CcWrapper = \ng.cc.commonFlags = {common}\n\n{RULES}"
        )?;
        (0..self.sizes.modules).try_for_each(|number| self.write_module(&mut out, number))?;
        out.flush()
    }

    /// Other modules of the same part with lower numbers.
    fn lower_modules(&self, module: u64, salts: std::ops::Range<u64>) -> Vec<u64> {
        let droid = self.sizes.droid_modules;
        let first = if module < droid { 0 } else { droid };
        let pick = |salt| (module > first).then(|| first + random(self.seed, module, salt) % (module - first));
        salts.filter_map(pick).collect()
    }

    fn write_module(&mut self, out: &mut impl Write, number: u64) -> Result<()> {
        let dir = source_dir(number);
        let module_flags = flags(self.seed ^ number, 1900);
        write!(
            out,
            "# # # # # # # # # # # # # # # # # # # # # # # # #\n# Module: libmod_{number}\n\
             # Variant: android_x86_64_silvermont_static\n# Type: cc_library\n\
             # Factory: android/soong/cc.LibraryFactory\n# Defined: {dir}/Android.bp:{}:1\n\n\
             m.libmod_{number}_android_x86_64_silvermont_static.cFlags = {module_flags}\n\n",
            number % 900
        )?;
        let tocs: Vec<String> = self.lower_modules(number, 100..106).into_iter().map(toc).collect();
        let mut objects = Vec::new();
        for file in 0..OBJECTS_IN_MODULE {
            objects.push(self.write_object(out, number, file, &module_flags, &tocs)?);
        }
        let library = self.write_library(out, number, &objects)?;
        self.write_stripped(out, number, &library)?;
        self.write_toc(out, number, &library)?;
        self.write_license(out, number)?;
        if number < self.sizes.droid_modules {
            [library, stripped(number), toc(number), license(number)]
                .iter()
                .try_for_each(|path| self.files.output(path))?;
        }
        Ok(())
    }

    fn write_object(
        &mut self,
        out: &mut impl Write,
        module: u64,
        file: u64,
        module_flags: &str,
        tocs: &[String],
    ) -> Result<String> {
        let (Headers { seed, average, pool }, dir) = (self.headers, source_dir(module));
        let number = module * OBJECTS_IN_MODULE + file;
        let source = format!("{dir}/src/impl/file_{file}.cpp");
        let object = format!("{}/obj/{dir}/src/impl/file_{file}.o", out_dir(module));
        let own = flags(seed ^ number ^ 0xabc, 740);
        let extra = format!("{own} -DFAKE={seed},{number},{average},{pool},{HEADER_PREFIX}");
        write!(out, "build {object}: g.cc.cc $\n        {source} $\n        | ${{g.cc.ClangBin}}/fakecc")?;
        if !tocs.is_empty() {
            write!(out, " ||")?;
        }
        write_list(out, tocs)?;
        write!(
            out,
            "\n    description = //{dir}:libmod_{module} clang++ file_{file}.cpp [android_x86_64]\n    \
             tags = module_name=libmod_{module};module_type=cc_library;rule_name=cc;\
             module_variant=android_x86_64_silvermont_static\n    ccCmd = ${{g.cc.ClangBin}}/fakecc\n    \
             cFlags = ${{g.cc.commonFlags}} ${{m.libmod_{module}_android_x86_64_silvermont_static.cFlags}} {extra}\n\n"
        )?;
        let common = &self.common_flags;
        let command = format!("{PREFIX} -c {common} {module_flags} {extra} -MD -MF {object}.d -o {object} {source}");
        self.state.record(&Edge {
            outputs: std::slice::from_ref(&object),
            inputs: &[(source.clone(), false), (COMPILER.to_owned(), true)],
            command: &command,
            rspfile: None,
            headers: Some(&self.headers.of(number)),
        })?;
        if module < self.sizes.droid_modules {
            self.files.source(&source)?;
            self.files.output(&object)?;
        }
        Ok(object)
    }

    fn write_library(&mut self, out: &mut impl Write, module: u64, objects: &[String]) -> Result<String> {
        let dir = source_dir(module);
        let library = format!("{}/unstripped/libmod_{module}.so", out_dir(module));
        let tocs: Vec<String> = self.lower_modules(module, 200..224).into_iter().map(toc).collect();
        let (link, libraries) = (flags(self.seed ^ module ^ 0x55, 900), flags(self.seed ^ module ^ 0x56, 300));
        write!(out, "build {library}: g.cc.ld")?;
        write_list(out, objects)?;
        write!(out, " | ${{g.cc.ClangBin}}/fakecc")?;
        write_list(out, &tocs)?;
        write!(
            out,
            "\n    description = //{dir}:libmod_{module} link libmod_{module}.so\n    \
             ldFlags = {link}\n    libFlags = {libraries}\n\n"
        )?;
        // Duplicates stay, as ninja and n2 keep them.
        let inputs = [objects, &[COMPILER.to_owned()], &tocs].concat();
        let command = format!("{PREFIX} {link} @{library}.rsp {libraries} -o {library}");
        let rspfile = Some((format!("{library}.rsp"), objects.join(" ")));
        self.record(&library, inputs, &command, rspfile)?;
        Ok(library)
    }

    fn write_stripped(&mut self, out: &mut impl Write, module: u64, library: &str) -> Result<()> {
        let stripped = stripped(module);
        let flag = format!("--keep-mini-debug-info --libmod_{module}");
        writeln!(out, "build {stripped}: g.cc.strip {library} | ${{g.cc.ClangBin}}/fakecc\n    args = {flag}\n")?;
        let inputs = vec![library.to_owned(), COMPILER.to_owned()];
        self.record(&stripped, inputs, &format!("{PREFIX} --strip {flag} -o {stripped}"), None)
    }

    fn write_toc(&mut self, out: &mut impl Write, module: u64, library: &str) -> Result<()> {
        let toc = toc(module);
        writeln!(out, "build {toc}: g.cc.toc {library} | ${{g.cc.ClangBin}}/fakecc\n")?;
        let inputs = vec![library.to_owned(), COMPILER.to_owned()];
        self.record(&toc, inputs, &format!("{PREFIX} --toc {library} -o {toc}"), None)
    }

    fn write_license(&mut self, out: &mut impl Write, module: u64) -> Result<()> {
        let (license, toc) = (license(module), toc(module));
        let others: Vec<String> = self.lower_modules(module, 300..325).into_iter().map(self::license).collect();
        let flag = flags(self.seed ^ module ^ 0x57, 300);
        write!(out, "build {license}: g.cc.meta {toc}")?;
        write_list(out, &others)?;
        write!(out, "\n    args = {flag}\n\n")?;
        let command = format!("{PREFIX} --meta {flag} -o {license}");
        self.record(&license, [vec![toc], others].concat(), &command, None)
    }

    /// Records an edge that reads nothing but other edges' outputs.
    fn record(
        &mut self,
        output: &str,
        inputs: Vec<String>,
        command: &str,
        rspfile: Option<(String, String)>,
    ) -> Result<()> {
        let inputs: Vec<(String, bool)> = inputs.into_iter().map(|path| (path, true)).collect();
        self.state.record(&Edge { outputs: &[output.to_owned()], inputs: &inputs, command, rspfile, headers: None })
    }

    /// Returns the number of phony groups.
    fn write_kati(&mut self, mut out: BufWriter<File>) -> Result<usize> {
        writeln!(out, "# kati-style\n\npool local_pool\n depth = 72\n\nbuild _kati_always_build_: phony\n")?;
        let (mut groups, mut group) = (Vec::new(), Vec::new());
        for number in 0..self.sizes.kati {
            let stamp = self.write_kati_edge(&mut out, number)?;
            if number < self.sizes.kati_droid {
                group.push(stamp);
            }
            if group.len() == GROUP {
                write_group(&mut out, &mut groups, &mut group)?;
            }
        }
        if !group.is_empty() {
            write_group(&mut out, &mut groups, &mut group)?;
        }
        write!(out, "build droid_mods: phony")?;
        for module in 0..self.sizes.droid_modules {
            write!(out, " {} {}", stripped(module), license(module))?;
        }
        let all = groups.join(" ");
        writeln!(out, "\nbuild droid: phony droid_mods {all}\nbuild nothing: phony\ndefault droid")?;
        out.flush()?;
        Ok(groups.len())
    }

    /// Writes an edge with a rule of its own; returns its output.
    fn write_kati_edge(&mut self, out: &mut impl Write, number: u64) -> Result<String> {
        let is_droid = number < self.sizes.kati_droid;
        let droid = self.sizes.droid_modules;
        let (first, count) = if is_droid { (0, droid) } else { (droid, self.sizes.modules - droid) };
        let module = |salt| first + random(self.seed, number, salt) % count.max(1);
        let order_only = toc(module(902));
        let mut inputs = vec![(stripped(module(900)), true), (license(module(901)), true)];
        if number.is_multiple_of(12) {
            let source = format!("device/generic/conf/dir_{}/file_{number}.mk", number / 600);
            if is_droid {
                self.files.source(&source)?;
            }
            inputs.push((source, false));
        }
        let dir = format!("{KATI_OUT}/kati_{number}_intermediates/");
        let stamp = format!("{dir}export_{number}.stamp");
        let own = flags(self.seed ^ number ^ 0x77, 575);
        let script = format!("(mkdir -p {dir} ) && (rm -f {stamp} ) && (tools/fakecc {own} -o {stamp} )");
        let command = format!("/bin/sh -c \"{script}\"");
        write!(
            out,
            "rule rule{number}\n description = Copy: target kati_{number} ({stamp})\n command = {command}\n\
             build {stamp}: rule{number}"
        )?;
        inputs.iter().try_for_each(|(path, _)| write!(out, " {path}"))?;
        writeln!(out, " || {order_only}\n tags = module_name=kati_{number};module_type=SHARED_LIBRARIES")?;
        let outputs = std::slice::from_ref(&stamp);
        self.state.record(&Edge { outputs, inputs: &inputs, command: &command, rspfile: None, headers: None })?;
        if is_droid {
            self.files.output(&stamp)?;
        }
        Ok(stamp)
    }

    fn write_images(&self, mut out: BufWriter<File>) -> Result<()> {
        writeln!(out, "# package-style\n")?;
        for number in 0..IMAGES {
            let image = format!("out/target/product/generic_x86_64/pkg_{number}.img");
            let own = flags(self.seed ^ number ^ 0x99, 2000);
            writeln!(out, "rule prule{number}\n command = tools/fakecc {own} -o {image}")?;
            writeln!(out, "build {image}: prule{number} droid_mods || droid")?;
        }
        out.flush()
    }
}

/// One path a line.
fn write_list(out: &mut impl Write, paths: &[String]) -> Result<()> {
    paths.iter().try_for_each(|path| write!(out, " $\n        {path}"))
}

fn write_group(out: &mut impl Write, groups: &mut Vec<String>, group: &mut Vec<String>) -> Result<()> {
    let name = format!("droid_group_{}", groups.len());
    writeln!(out, "build {name}: phony {}", group.join(" "))?;
    groups.push(name);
    group.clear();
    Ok(())
}
