//! Recognizes commands that write nothing but their declared outputs: compilers, archivers and linkers with options that are
//! known to write no other files.

use super::SideEffects;

/// Options that are followed by a value in the next word.
const WITH_VALUE: [&[u8]; 22] = [
    b"-o",
    b"-x",
    b"-I",
    b"-D",
    b"-U",
    b"-L",
    b"-l",
    b"-MF",
    b"-MT",
    b"-MQ",
    b"-isystem",
    b"-iquote",
    b"-idirafter",
    b"-include",
    b"-isysroot",
    b"-imacros",
    b"-arch",
    b"-target",
    b"-z",
    b"-T",
    b"-u",
    b"-soname",
];

/// Beginnings of other options that write no files.
const PREFIXES: [&[u8]; 27] = [
    b"-I",
    b"-D",
    b"-U",
    b"-L",
    b"-l",
    b"-O",
    b"-W",
    b"-m",
    b"-g",
    b"-f",
    b"-std=",
    b"--std=",
    b"-stdlib=",
    b"--sysroot=",
    b"--target=",
    b"-isystem",
    b"-iquote",
    b"-static",
    b"-nostd",
    b"-no-",
    b"-MT",
    b"-MQ",
    b"-x",
    b"-rpath",
    b"-z",
    b"-fuse-ld=",
    b"-B",
];

/// Other options that write no files.
const EXACT: [&[u8]; 18] = [
    b"-c",
    b"-S",
    b"-E",
    b"-pthread",
    b"-pipe",
    b"-MD",
    b"-MMD",
    b"-MP",
    b"-M",
    b"-MM",
    b"-MG",
    b"-shared",
    b"-rdynamic",
    b"-s",
    b"-w",
    b"-pie",
    b"-ansi",
    b"-pedantic",
];

/// Beginnings of options that write other files, or read plugins that might.
const WRITERS: [&[u8]; 28] = [
    b"-fprofile",
    b"-fdump",
    b"-fsave",
    b"-fstack-usage",
    b"-fcallgraph-info",
    b"-ftime-trace",
    b"-ftest-coverage",
    b"-fmodule",
    b"-fplugin",
    b"-fpass-plugin",
    b"-fcrash",
    b"-foptimization-record",
    b"-fsyntax-only",
    b"-fcoverage",
    b"-fauto-profile",
    b"-fada",
    b"-fgo",
    b"-fbuild-session",
    b"-fmemory-profile",
    b"-fcs-profile",
    b"-fproc-stat-report",
    b"-fdiagnostics-add-output",
    b"-fdiagnostics-set-output",
    b"-fdiagnostics-format",
    b"-gsplit-dwarf",
    b"-Wa,",
    b"-Wp,",
    b"-fmerge-debug",
];

/// Options for the linker, after `-Wl,`, that write no files.
const LINKER: [&[u8]; 24] = [
    b"-soname",
    b"-rpath",
    b"-rpath-link",
    b"-z",
    b"--as-needed",
    b"--no-as-needed",
    b"-O",
    b"--gc-sections",
    b"--build-id",
    b"--no-undefined",
    b"--start-group",
    b"--end-group",
    b"--whole-archive",
    b"--no-whole-archive",
    b"--hash-style",
    b"--enable-new-dtags",
    b"--disable-new-dtags",
    b"--color-diagnostics",
    b"--export-dynamic",
    b"--exclude-libs",
    b"--icf",
    b"-dynamic-list",
    b"--version-script",
    b"-Bsymbolic",
];

const COMPILERS: [&[u8]; 6] = [b"cc", b"c++", b"gcc", b"g++", b"clang", b"clang++"];
const ARCHIVERS: [&[u8]; 6] = [b"ar", b"gcc-ar", b"llvm-ar", b"ranlib", b"gcc-ranlib", b"llvm-ranlib"];

impl SideEffects {
    /// Returns whether a command line may write files other than its declared outputs.
    pub fn of_command(line: &[u8]) -> SideEffects {
        // Anything that the shell would interpret, but `&&` between words.
        if line.iter().any(|byte| b"|;<>`$()*?[]#~=%!{}\n\\'\"".contains(byte) && !is_plain(*byte)) {
            return SideEffects::Possible;
        }
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
        let mut commands = words.split(|word| *word == b"&&");
        if commands.all(writes_only_outputs) { SideEffects::None } else { SideEffects::Possible }
    }
}

/// Special characters that mean themselves within words.
fn is_plain(byte: u8) -> bool {
    b"=%~".contains(&byte)
}

fn writes_only_outputs(words: &[&[u8]]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    let is_shell_text = |word: &&&[u8]| word.contains(&b'&') || word.starts_with(b"~");
    if words.iter().find(is_shell_text).is_some() || program.contains(&b'=') {
        return false;
    }
    let name = base_name(program);
    match name {
        b":" => arguments.is_empty(),
        b"cmake" => arguments.starts_with(&[b"-E", b"rm", b"-f"]),
        _ if ARCHIVERS.contains(&without_version(name)) => !arguments.iter().any(|word| word.starts_with(b"@")),
        _ if is_compiler(name) => compiler_writes_only_outputs(arguments),
        _ => false,
    }
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// `clang-19` is `clang`.
fn without_version(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|byte| *byte == b'-') {
        Some(at) if name[at + 1..].iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') => &name[..at],
        _ => name,
    }
}

/// Also with the name of a target, such as `aarch64-linux-gnu-gcc`.
fn is_compiler(name: &[u8]) -> bool {
    let name = without_version(name);
    COMPILERS.contains(&name)
        || COMPILERS.iter().any(|it| name.strip_suffix(*it).is_some_and(|rest| rest.ends_with(b"-")))
}

fn compiler_writes_only_outputs(arguments: &[&[u8]]) -> bool {
    let mut rest = arguments.iter();
    while let Some(&word) = rest.next() {
        if WITH_VALUE.contains(&word) {
            rest.next();
        } else if !word.starts_with(b"-") {
            if word.starts_with(b"@") {
                return false;
            }
        } else if let Some(options) = word.strip_prefix(b"-Wl,") {
            if !linker_writes_only_outputs(options) {
                return false;
            }
        } else if WRITERS.iter().any(|it| word.starts_with(it))
            || !(EXACT.contains(&word) || PREFIXES.iter().any(|it| word.starts_with(it)))
        {
            return false;
        }
    }
    true
}

fn linker_writes_only_outputs(options: &[u8]) -> bool {
    let is_known = |word: &[u8]| {
        let name = word.split(|byte| *byte == b'=').next().unwrap_or_default();
        !word.starts_with(b"-") || LINKER.contains(&name) || word.starts_with(b"-O")
    };
    options.split(|byte| *byte == b',').all(is_known) && !options.contains(&b'@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_and_archivers_write_only_their_outputs() {
        for line in [
            "/usr/bin/c++ -DX=1 -I/usr/include -isystem /x -O2 -g -std=gnu++17 -fPIC -MD -MT a.o -MF a.o.d -o a.o -c /src/a.cc",
            "clang-19 -c a.c -o a.o",
            "aarch64-linux-gnu-gcc-12 -Wall -Werror -march=native -c a.c -o a.o",
            ": && /usr/bin/cmake -E rm -f liba.a && /usr/bin/ar qc liba.a a.o b.o && /usr/bin/ranlib liba.a && :",
            ": && /usr/bin/c++ -O3 -rdynamic a.o -o a -Wl,-rpath,/lib:/x -Wl,-O1 -Wl,--build-id=sha1 liba.a -lm -pthread && :",
        ] {
            assert_eq!(SideEffects::of_command(line.as_bytes()), SideEffects::None, "{line}");
        }
    }

    #[test]
    fn everything_else_may_have_side_effects() {
        for line in [
            "",
            "touch a",
            "python3 gen.py a.c",
            "ccache gcc -c a.c -o a.o",
            "gcc -c a.c -o a.o > log",
            "gcc -c a.c -o a.o; touch b",
            "gcc -c a.c -o a.o & touch b",
            "gcc -c a.c -o a.o && touch b",
            "gcc -c a.c -o a.o || gcc -c b.c -o b.o",
            "gcc -c $(cat name) -o a.o",
            "CCC_OVERRIDE_OPTIONS=x clang -c a.c -o a.o",
            "gcc @args",
            "ar @args",
            "gcc -c a.c -o a.o --coverage",
            "gcc -c a.c -o a.o -save-temps",
            "gcc -c a.c -o a.o -fprofile-arcs",
            "gcc -c a.c -o a.o -fstack-usage",
            "gcc -c a.c -o a.o -gsplit-dwarf",
            "gcc -c a.c -o a.o -fplugin=x.so",
            "clang -c a.c -o a.o -ftime-trace",
            "clang -c a.c -o a.o -Xclang -load",
            "clang -c a.c -o a.o -MJ x.json",
            "clang -c a.c -o a.o -serialize-diagnostics x",
            "gcc a.o -o a -Wl,-Map=a.map",
            "gcc a.o -o a -Wl,-Map,a.map",
            "gcc a.o -o a -Wl,--out-implib,x",
            "gcc -wrapper touch,x -c a.c",
            "cmake -E touch a",
            "/bin/cmake -P x.cmake",
        ] {
            assert_eq!(SideEffects::of_command(line.as_bytes()), SideEffects::Possible, "{line}");
        }
    }
}
