//! Tests of reading compiles.

use super::PathDependence::{Dependent, Independent, UnlessNamed};
use super::*;

fn read(command: &str) -> Result<Compile<'_>, Refusal> {
    parse(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

fn known(command: &str) -> Compile<'_> {
    read(command).unwrap_or_else(|refusal| panic!("{command}: {refusal}"))
}

fn refusal(command: &str) -> String {
    read(command).map_or_else(|refusal| refusal.to_string(), |_| "none".into())
}

fn dependence(command: &str) -> PathDependence {
    known(command).path_dependence(b"/src/tree", b"/src/tree/build")
}

fn depfile(command: &str) -> Option<String> {
    known(command).depfile.map(|file| String::from_utf8(file).expect("a name in UTF-8"))
}

#[test]
fn compilers_are_known_by_name() {
    let family = |program: &str| Family::of_program(program.as_bytes());
    for program in ["gcc", "g++", "/usr/bin/gcc-12", "aarch64-linux-gnu-g++-12", "x86_64-pc-linux-gnu-gcc-13.2.0"] {
        assert_eq!(family(program), Some(Family::Gcc), "{program}");
    }
    for program in ["clang", "clang++-19", "../llvm/bin/clang", "armv7a-linux-androideabi21-clang++"] {
        assert_eq!(family(program), Some(Family::Clang), "{program}");
    }
    for program in ["cc", "/usr/bin/c++"] {
        assert_eq!(family(program), Some(Family::Unknown), "{program}");
    }
    for program in
        ["", "gcc-ar", "gccgo", "clang-cl", "clang-tidy", "clang-", "-gcc", "ccache", "xgcc", "gcc-12-", "gcc12"]
    {
        assert_eq!(family(program), None, "{program}");
    }
}

#[test]
fn a_usual_compile_is_read() {
    let compile = known("/usr/bin/c++ -DA=1 -I /x -Iinc -O2 -g -std=gnu++17 -MD -MT a.o -MF a.o.d -o a.o -c ../a.cpp");
    assert_eq!(compile.source, b"../a.cpp");
    assert_eq!(compile.output, b"a.o");
    assert_eq!(compile.depfile.as_deref(), Some(&b"a.o.d"[..]));
    assert_eq!(compile.language, Language::Cxx);
    assert!(compile.emits_debug_info && !compile.is_native && !compile.is_for_lto);
    assert!(known("gcc -march=native -c a.c -o a.o").is_native);
}

#[test]
fn the_name_of_a_depfile_follows_the_object() {
    for (output, expected) in
        [("x.o", "x.d"), ("a.b/x", "a.b/x.d"), ("o/x.c.o", "o/x.c.d"), ("o/.x", "o/.d"), ("x.", "x.d")]
    {
        assert_eq!(depfile(&format!("gcc -MMD -c a.c -o {output}")).as_deref(), Some(expected));
    }
    assert_eq!(depfile("gcc -MD -MFa -MF b -c a.c -o x.o").as_deref(), Some("b"));
    assert_eq!(depfile("gcc -Wp,-MMD,.x.d -c a.c -o x.o").as_deref(), Some(".x.d"));
    for none in
        ["clang -MF a -c a.c -o x.o", "gcc -MD -c a.s -o x.o", "gcc -MD -MF a -c a.ii -o x.o", "gcc -c a.c -o x.o"]
    {
        assert_eq!(depfile(none), None, "{none}");
    }
    assert!(depfile("gcc -MD -x assembler-with-cpp -c a.s -o x.o").is_some());
}

#[test]
fn the_last_option_for_debug_information_wins() {
    for (options, expected) in
        [("-g -g0", false), ("-g0 -ggdb3", true), ("-gdwarf-5 -ggdb0", false), ("-g0 -gz", false)]
    {
        assert_eq!(known(&format!("gcc {options} -c a.c -o a.o")).emits_debug_info, expected, "{options}");
    }
}

#[test]
fn other_commands_are_refused() {
    assert_eq!(refusal("gcc -c a.c -o a.o -fprofile-arcs"), "option -fprofile-arcs");
    assert_eq!(refusal("gcc -c a.c -o a.o @x"), "reads options from @x");
    assert_eq!(refusal("gcc a.o b.o -o a"), "links");
    assert_eq!(refusal("gcc -c a.c b.c -o a.o"), "several sources");
    assert_eq!(refusal("gcc -c a.c -o a.o -I"), "option -I without its value");
    assert_eq!(refusal("gcc -c a.c -o a.o -include-pch"), "option -include-pch");
    assert_eq!(refusal("gcc -c a.c -o a.o -Wa,-ahl=x"), "option -Wa,-ahl=x");
    assert_eq!(refusal("gcc -c a.c -o a.o -fvisibility=odd"), "option -fvisibility=odd");
    assert_eq!(refusal("clang -x c-header a.h -o a.h.gch"), "precompiles a header with clang");
    assert_eq!(refusal("gcc -x c-header a.h -o a.h.gch"), "none");
    assert_eq!(refusal(""), "not a compile of gcc or clang");
}

#[test]
fn relative_compiles_without_debug_information_do_not_depend_on_the_place() {
    assert_eq!(dependence("gcc -O2 -I../inc -MD -c ../a.c -o a.o"), Independent);
    assert_eq!(dependence("gcc -O2 -g -c ../a.c -o a.o"), Dependent);
    assert_eq!(dependence("clang -g -fdebug-compilation-dir=. -c ../a.c -o a.o"), Independent);
    assert_eq!(dependence("gcc -g -fdebug-prefix-map=/src/tree=. -c ../a.c -o a.o"), Independent);
    assert_eq!(dependence("gcc -isystem ../inc -c ../a.c -o a.o"), Dependent);
    assert_eq!(dependence("clang -isystem ../inc -c ../a.c -o a.o"), Independent);
    assert_eq!(dependence("gcc -flto -c ../a.c -o a.o"), Dependent);
    assert_eq!(dependence("gcc -fmessage-length=60 -c ../a.c -o a.o"), Dependent);
    assert_eq!(dependence("gcc -fmessage-length=0 -c ../a.c -o a.o"), Independent);
    assert_eq!(dependence("clang -flto -c ../a.c -o a.o"), Independent);
    assert_eq!(dependence("clang -fsanitize=address -c ../a.c -o a.o"), Independent);
}

#[test]
fn prefix_maps_must_cover_absolute_paths() {
    let with = |options: &str| dependence(&format!("gcc {options} -c /src/tree/a.c -o a.o"));
    assert_eq!(with("-O2"), Dependent);
    assert_eq!(with("-g -ffile-prefix-map=/src/tree=new"), Independent);
    assert_eq!(with("-g -ffile-prefix-map=/src/tree/="), Independent);
    assert_eq!(with("-fmacro-prefix-map=/src/tree=new"), Independent);
    assert_eq!(with("-g -fmacro-prefix-map=/src/tree=new"), Dependent);
    assert_eq!(with("-g -fdebug-prefix-map=/src/tree=new"), Dependent);
    assert_eq!(with("-g -fdebug-prefix-map=/src/tree=new -fmacro-prefix-map=/src/tree=new"), Independent);
    assert_eq!(with("-ffile-prefix-map=/src/tree=/src/tree/x"), Dependent);
    assert_eq!(with("-ffile-prefix-map=/src/tree=x -ffile-prefix-map=/src=y"), Dependent);
    assert_eq!(with("-ffile-prefix-map=/src/tree=x -ffile-prefix-map=/src/tree/build=y"), Independent);
    assert_eq!(with("-ffile-prefix-map=/src/tree=x -I/src/tree2"), Dependent);
    assert_eq!(with("-ffile-prefix-map=/src/tree=x -I/src/tree/inc -DA=/src/tree"), Dependent);
    assert_eq!(with("-ffile-prefix-map=/src/tree=x -fsanitize=undefined"), Dependent);
    assert_eq!(with("-ffile-prefix-map=/src/tree=x -isystem /src/tree/inc"), Dependent);
    assert_eq!(with("-ffile-prefix-map=/src/tree=x -fno-canonical-system-headers -isystem /src/tree/inc"), Independent);
}

#[test]
fn the_root_as_working_directory_needs_a_map_of_its_own() {
    let at_root = |map: &str| known(&format!("gcc -g {map} -c a.c -o a.o")).path_dependence(b"/src/tree", b"/src/tree");
    assert_eq!(at_root("-ffile-prefix-map=/src/tree=x"), Independent);
    assert_eq!(at_root("-ffile-prefix-map=/src/tree="), Dependent);
    assert_eq!(at_root("-ffile-prefix-map=/src/tree/=x"), Dependent);
}

#[test]
fn a_map_of_the_working_directory_must_come_last() {
    let with = |program: &str, options: &str| {
        let command = format!("{program} {options} -c ../a.c -o a.o");
        known(&command).directory_dependence(b"/src/tree/build")
    };
    for (options, expected) in [
        ("-O2", Independent),
        ("-O2 -I/src/tree/inc -ffile-prefix-map=/src/tree=x", Independent),
        ("-O2 -I/src/tree/build/gen", UnlessNamed),
        ("-O2 -I/src/tree/build/gen -ffile-prefix-map=/src/tree=x", UnlessNamed),
        ("-O2 -I/src/tree/build/gen -ffile-prefix-map=/src/tree/build=x", Independent),
        ("-O2 -I/src/tree/build2", Dependent),
        ("-g", Dependent),
        ("-g -ffile-prefix-map=/src/tree=x", Dependent),
        ("-g -ffile-prefix-map=/src/tree/build=x", Independent),
        ("-g -ffile-prefix-map=/src/tree/build=", Dependent),
        ("-g -ffile-prefix-map=/src/tree/build/=x", Dependent),
        ("-g -ffile-prefix-map=/src/tree=x -ffile-prefix-map=/src/tree/build=y", Independent),
        ("-g -ffile-prefix-map=/src/tree/build=y -ffile-prefix-map=/src/tree=x", Dependent),
        ("-g -ffile-prefix-map=/src/tree/build=y -fmacro-prefix-map=/src/tree=x", Independent),
        ("-g -I/src/tree/build -fdebug-prefix-map=/src/tree/build=y", UnlessNamed),
        ("-O2 -ffile-prefix-map=/src=/src/tree/build", Dependent),
        ("-DA=/src/tree/build", Dependent),
        ("-fsanitize=address -I/src/tree/build", Dependent),
    ] {
        assert_eq!(with("gcc", options), expected, "{options}");
    }
    assert_eq!(with("gcc", "-isystem ../inc"), Dependent);
    assert_eq!(with("clang", "-isystem ../inc -g -fdebug-compilation-dir=."), Independent);
    assert_eq!(with("/src/tree/build/clang", "-O2"), Dependent);
}

#[test]
fn debug_information_of_assemblers_depends_on_the_place_unless_gcc_is_known() {
    let with = |program: &str| dependence(&format!("{program} -g -ffile-prefix-map=/src/tree=x -c ../a.S -o a.o"));
    assert_eq!(with("gcc"), Independent);
    assert_eq!(with("cc"), Dependent);
    assert_eq!(with("clang"), Dependent);
}
