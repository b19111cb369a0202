#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Builds small libraries with the faults that exports.py is there to find, with the compiler that is its
# argument, and sees each one found.

import pathlib
import subprocess
import sys
import tempfile
import unittest

import exports

COMPILER = sys.argv.pop()

HEADER = "#define ZIPCCL_API\nZIPCCL_API int zipcclOne(int a,\n  int b);\nZIPCCL_API const char* zipcclTwo(void);\n"
GOOD = 'extern "C" int zipcclOne(int a, int b) { return a + b; }\nextern "C" const char* zipcclTwo() { return ""; }\n'


class ExportsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.header = self.folder / "zipccl.h"
        self.header.write_text(HEADER)

    def compile(self, source, name, *options):
        output = self.folder / name
        subprocess.run(
            [COMPILER, "-std=c++20", "-x", "c++", "-", "-fPIC", "-O1", *options, "-o", str(output)],
            input=source,
            text=True,
            check=True,
        )
        return output

    def export_faults(self, source):
        library = self.compile(source, "libzipccl.so", "-shared")
        undeclared = exports.check_undeclared(library, [self.header])
        return [*undeclared, *exports.check_missing(library, [self.header])]

    def quiet_faults(self, source):
        return list(exports.check_quiet([self.compile(source, "one.o", "-c")]))

    def test_accepts_what_is_declared(self):
        self.assertEqual(self.export_faults(GOOD), [])

    def test_finds_an_undeclared_function(self):
        (fault,) = self.export_faults(GOOD + 'extern "C" int zipcclThree() { return 3; }')
        self.assertIn("exports zipcclThree", fault)

    def test_finds_a_leaked_template_instance(self):
        faults = self.export_faults("#include <vector>\ntemplate class std::vector<int>;\n" + GOOD)
        self.assertTrue(any("_ZNSt6vector" in fault for fault in faults), faults)

    def test_finds_a_missing_function(self):
        (fault,) = self.export_faults(GOOD.split("\n", maxsplit=1)[0])
        self.assertIn("declares zipcclTwo", fault)

    def test_finds_an_empty_header(self):
        self.header.write_text("")
        self.assertIn("declares no function", self.export_faults(GOOD)[-1])

    def test_finds_a_plugin_that_shows_more_or_less(self):
        entry = 'extern "C" int entry() { return 1; }\n'
        for source, words in ((entry, None), (entry + "int more() { return 2; }", "_Z4morev, entry"), ("", "nothing")):
            faults = list(exports.check_plugin(self.compile(source, "libplugin.so", "-shared"), "entry"))
            self.assertEqual([f"libplugin.so exports {words}, not entry alone"] if words else [], faults)

    def test_finds_loud_objects(self):
        calls = {
            "printf": 'std::printf("%d", argument);',
            "puts": 'std::puts("text");',
            "stdout": 'std::fprintf(stdout, "text %d", argument);',
            "_ZSt4cout": "std::cout << argument;",
            "abort": "std::abort();",
            "exit": "std::exit(argument);",
            "__assert_fail": "assert(argument != 0);",
        }
        source = "#include <cassert>\n#include <cstdio>\n#include <cstdlib>\n#include <iostream>\n"
        for number, statement in enumerate(calls.values()):
            source += f"void call{number}([[maybe_unused]] int argument) {{ {statement} }}\n"
        found = {fault.rsplit(" ", maxsplit=1)[1] for fault in self.quiet_faults(source)}
        self.assertEqual(found, set(calls))

    def test_accepts_quiet_objects(self):
        source = '#include <cstdio>\nvoid call(char* a) { std::snprintf(a, 4, "x"); std::fputs(a, stderr); }\n'
        self.assertEqual(self.quiet_faults(source), [])


if __name__ == "__main__":
    unittest.main()
