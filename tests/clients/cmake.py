"""CMake's generators as clients: C++, Fortran modules, Ninja Multi-Config, nested builds."""

NO_WORK = "ninja: no work to do."


def configure(tree, *more, generator="Ninja"):
    tree.run("configure", "cmake", "-S", ".", "-B", "build", "-G", generator, f"-DCMAKE_MAKE_PROGRAM={tree.ninja}", *more)


def build(tree, purpose, *more, **expected):
    return tree.run(purpose, "cmake", "--build", "build", *more, **expected)


def write_cpp(tree, definition=""):
    tree.write(
        "CMakeLists.txt",
        f"""
        cmake_minimum_required(VERSION 3.20)
        project(cpp CXX)
        {definition}
        add_custom_command(OUTPUT made.h DEPENDS value.txt VERBATIM
            COMMAND ${{CMAKE_COMMAND}} -E copy_if_different ${{CMAKE_SOURCE_DIR}}/value.txt made.h)
        add_library(part STATIC one.cpp two.cpp ${{CMAKE_BINARY_DIR}}/made.h)
        target_include_directories(part PUBLIC ${{CMAKE_SOURCE_DIR}} ${{CMAKE_BINARY_DIR}})
        add_library(shared SHARED three.cpp)
        add_executable(app main.cpp)
        target_link_libraries(app part shared)
        enable_testing()
        add_test(NAME runs COMMAND app)
        """,
    )


def cpp(tree):
    """C++: depfiles, a generated header with restat, a failing compile, regeneration, clean."""
    write_cpp(tree)
    tree.write("value.txt", "#define VALUE 0\n")
    tree.write("part.h", "int one(); int two(); int three();\n")
    tree.write("one.cpp", '#include "part.h"\n#include "made.h"\nint one() { return VALUE; }\n')
    tree.write("two.cpp", "int two() { return 0; }\n")
    tree.write("three.cpp", '#include "part.h"\nint three() { return 0; }\n')
    tree.write("main.cpp", '#include "part.h"\nint main() { return one() + two() + three(); }\n')
    configure(tree)
    link = ["Linking CXX executable app"]
    archive = ["Linking CXX static library libpart.a"]
    shared = ["Linking CXX shared library libshared.so"]
    objects = ["one.cpp.o", "two.cpp.o", "three.cpp.o", "main.cpp.o"]
    everything = ["Generating made.h"] + objects + archive + shared + link
    build(tree, "first build", rebuilt=everything)
    build(tree, "nothing to do", says=NO_WORK, rebuilt=[])
    tree.touch("part.h")
    using = ["one.cpp.o", "three.cpp.o", "main.cpp.o"]
    build(tree, "a header touched", rebuilt=using + archive + shared + link)
    tree.touch("two.cpp")
    build(tree, "a source touched", rebuilt=["two.cpp.o"] + archive + link)
    tree.touch("value.txt")
    build(tree, "a generated header unchanged", rebuilt=["Generating made.h"])
    build(tree, "nothing to do after restat", says=NO_WORK)
    tree.write("value.txt", "#define VALUE (1 - 1)\n")
    build(tree, "a generated header changed", rebuilt=["Generating made.h", "one.cpp.o"] + archive + link)
    tree.touch("CMakeLists.txt")
    build(tree, "CMakeLists.txt touched", rebuilt=["Re-running CMake"])
    build(tree, "nothing to do after regeneration", says=NO_WORK)
    write_cpp(tree, "add_compile_definitions(MORE=1)")
    build(tree, "all commands changed", rebuilt=["Re-running CMake"] + objects + archive + shared + link)
    tree.write("two.cpp", "int two() { return broken; }\n")
    build(tree, "a compile fails", "--", "-k", "0", status=1, says="FAILED: ", rebuilt=["two.cpp.o"])
    tree.write("two.cpp", "int two() { return 0; }\n")
    build(tree, "repaired", rebuilt=["two.cpp.o"] + archive + link)
    build(tree, "test", "--target", "test", says="100% tests passed")
    build(tree, "clean", "--target", "clean")
    build(tree, "after clean", rebuilt=everything)
    build(tree, "nothing to do at the end", says=NO_WORK)


def write_module(tree, value):
    tree.write(
        "shape.f90",
        f"""
        module shape
          integer, parameter :: sides = {value}
        end module
        """,
    )


def fortran(tree):
    """Fortran: dyndep finds modules during the build."""
    tree.write(
        "CMakeLists.txt",
        """
        cmake_minimum_required(VERSION 3.20)
        project(modules Fortran)
        add_library(shapes STATIC area.f90 shape.f90)
        add_executable(app main.f90)
        target_link_libraries(app shapes)
        """,
    )
    write_module(tree, 4)
    area = "module area\n  use shape\n  integer, parameter :: corners = sides\nend module\n"
    tree.write("area.f90", area)
    main = "program main\n  use area\n  if (corners < 3) stop 1\nend program\n"
    tree.write("main.f90", main)
    configure(tree)
    build(tree, "first build")
    build(tree, "nothing to do", says=NO_WORK, rebuilt=[])
    tree.touch("shape.f90")
    scan = ["shape.f90-pp.f90", "shapes.dir/Fortran.dd", "shape.f90.o"]
    link = ["library libshapes.a", "executable app"]
    build(tree, "a module's source touched", rebuilt=scan + link)
    build(tree, "nothing to do after restat", says=NO_WORK)
    write_module(tree, 5)
    users = ["area.f90.o", "main.f90.o"]
    build(tree, "a module changed", rebuilt=scan + users + link)
    tree.write("extra.f90", "module extra\n  integer, parameter :: more = 1\nend module\n")
    tree.write("shape.f90", "module shape\n  use extra\n  integer, parameter :: sides = 4 + more\nend module\n")
    lists = (tree.root / "CMakeLists.txt").read_text().replace("shape.f90", "shape.f90 extra.f90")
    tree.write("CMakeLists.txt", lists)
    extra = ["extra.f90-pp.f90", "extra.f90.o"]
    build(tree, "a new module is used", rebuilt=["Re-running CMake"] + extra + scan + users + link)
    build(tree, "nothing to do with the new module", says=NO_WORK)
    build(tree, "clean", "--target", "clean")
    build(tree, "after clean")
    build(tree, "nothing to do at the end", says=NO_WORK)


def multi_config(tree):
    """Ninja Multi-Config: one manifest per configuration, all with a common include."""
    tree.write(
        "CMakeLists.txt",
        """
        cmake_minimum_required(VERSION 3.20)
        project(multi C)
        add_library(part STATIC part.c)
        add_executable(app main.c)
        target_link_libraries(app part)
        """,
    )
    tree.write("part.c", "int part(void) { return 0; }\n")
    tree.write("main.c", "int part(void);\nint main(void) { return part(); }\n")
    configure(tree, "-DCMAKE_CONFIGURATION_TYPES=Debug;Release", generator="Ninja Multi-Config")

    def steps(config):
        return [f"{config}/part.c.o", f"{config}/main.c.o", f"{config}/libpart.a", f"{config}/app"]

    build(tree, "Debug", "--config", "Debug", rebuilt=steps("Debug"))
    build(tree, "nothing to do in Debug", "--config", "Debug", says=NO_WORK)
    build(tree, "Release", "--config", "Release", rebuilt=steps("Release"))
    tree.touch("part.c")
    rebuilt = ["Release/part.c.o", "Release/libpart.a", "Release/app"]
    build(tree, "a source touched, Release", "--config", "Release", rebuilt=rebuilt)
    ninja = [str(tree.ninja), "-C", "build", "-f", "build-Debug.ninja"]
    rebuilt = ["Debug/part.c.o", "Debug/libpart.a", "Debug/app"]
    tree.run("a source touched, ninja -f build-Debug.ninja", *ninja, rebuilt=rebuilt)
    tree.touch("CMakeLists.txt")
    build(tree, "CMakeLists.txt touched", "--config", "Debug", rebuilt=["Re-running CMake"])
    build(tree, "clean Release", "--config", "Release", "--target", "clean")
    build(tree, "Debug is not cleaned", "--config", "Debug", says=NO_WORK)


def nested(tree):
    """A custom target that runs `cmake --build .` on the same tree."""
    tree.write(
        "CMakeLists.txt",
        """
        cmake_minimum_required(VERSION 3.20)
        project(nested C)
        add_executable(inner inner.c)
        set_target_properties(inner PROPERTIES EXCLUDE_FROM_ALL TRUE)
        add_executable(outer outer.c)
        add_custom_target(both ALL COMMAND ${CMAKE_COMMAND} --build . --target inner DEPENDS outer)
        add_custom_target(console COMMAND ${CMAKE_COMMAND} --build . --target inner USES_TERMINAL)
        """,
    )
    tree.write("inner.c", "int main(void) { return 0; }\n")
    tree.write("outer.c", "int main(void) { return 0; }\n")
    configure(tree)
    own = ["outer.c.o", "executable outer"]
    theirs = ["inner.c.o", "executable inner"]
    call = ["cmake --build . --target inner"]
    build(tree, "first build", rebuilt=own + call + theirs)
    build(tree, "again: only the custom target runs", rebuilt=call)
    tree.touch("inner.c")
    build(tree, "the inner source touched", rebuilt=call + theirs)
    build(tree, "the inner target is up to date", "--target", "inner", says=NO_WORK)
    tree.touch("outer.c")
    build(tree, "the outer source touched", "--target", "outer", rebuilt=own)
    tree.touch("inner.c")
    build(tree, "from the console pool", "--target", "console", rebuilt=call + theirs)
    tree.touch("inner.c")
    tree.touch("CMakeLists.txt")
    build(tree, "regenerated, then the inner build", "--target", "both", rebuilt=["Re-running"] + call + theirs)
    build(tree, "the inner target alone", "--target", "inner", says=NO_WORK)
    tree.touch("inner.c")
    build(tree, "the inner source touched again", "--target", "inner", rebuilt=theirs)
