#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Plants faults in a small tree and sees each rule of tree_rules.py catch its own, where it stands, and
# nothing else.

import pathlib
import tempfile
import unittest

import tree_rules

ARCHITECTURE = """\
| floor | folder | holds | may use |
|---|---|---|---|
| 6 | `tools/` | the command | public headers of upper |
| 6 | `preload/` | the interposer | libc; beside |
| 2 | `src/upper/` | `a.cu` | lower |
| 1 | `src/lower/` | b | - |
| 1 | `src/beside/` | c | - |

| header | floor | for |
|---|---|---|
| `zipccl/a.hpp` | upper | x |
| `zipccl/low.hpp` | lower | x |
| `zipccl/side.hpp` | beside | x |
"""

CPP = "// SPDX-License-Identifier: Apache-2.0\n//\n// A file.\n\n"
PY = "# SPDX-License-Identifier: Apache-2.0\n#\n# A file.\n\n"

CLEAN = {
    "docs/architecture.md": ARCHITECTURE,
    "README.md": "See `docs/architecture.md`, [it](docs/architecture.md#x), `zipccl/a.hpp`, `build/ci/x`.\n",
    "include/zipccl/a.hpp": CPP + "#include <cstdint>\n",
    "src/lower/low.hpp": CPP + '#include "lower/other.hpp"\n',
    "src/beside/side.hpp": CPP,
    "src/upper/up.cpp": CPP + '#include "lower/low.hpp"\n#include <zipccl/a.hpp>\n',
    "tools/tool.cpp": CPP + "#include <zipccl/a.hpp>\n#include <zipccl/low.hpp>\nint main() { std::puts(name); }\n",
    "preload/hook.cpp": CPP + '#include "beside/side.hpp"\n#include <zipccl/nccl_engine.h>\n',
    "tests/rules/some.py": "#!/usr/bin/env python3\n" + PY,
    "data/tensor.bin": b"\0\xff",
}


class TreeRulesTest(unittest.TestCase):
    def faults(self, rule, planted):
        with tempfile.TemporaryDirectory() as folder:
            for path, content in {**CLEAN, **planted}.items():
                file = pathlib.Path(folder) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content.encode() if isinstance(content, str) else content)
            return [
                (fault.path, fault.line) for fault in tree_rules.RULES[rule](tree_rules.Tree(folder))
            ]

    def test_clean_tree_has_no_fault(self):
        for rule in tree_rules.RULES:
            self.assertEqual(self.faults(rule, {}), [], rule)

    def test_build_folders_are_not_read(self):
        for rule in tree_rules.RULES:
            self.assertEqual(self.faults(rule, {"build/ci/x.cpp": "\xff printf();"}), [], rule)

    def test_spdx(self):
        for planted in [
            {"src/lower/x.cpp": "// A file.\n"},
            {"src/lower/x.cpp": "\n" + CPP},
            {"src/lower/x.cu": CPP.replace("Apache-2.0", "MIT")},
            {"src/lower/CMakeLists.txt": ""},
            {"tests/run": "#!/bin/sh\ntrue\n"},
            {".clang-tidy": "Checks: ''\n"},
        ]:
            path, content = next(iter(planted.items()))
            line = 2 if content.startswith("#!") else 1
            self.assertEqual(self.faults("spdx", planted), [(path, line)], content)

    def test_spdx_wants_a_paragraph(self):
        head = "// SPDX-License-Identifier: Apache-2.0\n"
        for content in [head, head + "#include <x>\n", head + "//\n", head + "//\n//\n// A file.\n"]:
            self.assertEqual(self.faults("spdx", {"src/lower/x.cpp": content}), [("src/lower/x.cpp", 2)])

    def test_ascii(self):
        self.assertEqual(self.faults("ascii", {"docs/x.md": "a\nb \u2013 c\n"}), [("docs/x.md", 2)])
        self.assertEqual(self.faults("ascii", {"src/lower/x.cpp": "\u00b5"}), [("src/lower/x.cpp", 1)])

    def test_floors(self):
        for path, include in [
            ("src/lower/x.cpp", '"upper/up.hpp"'),
            ("src/lower/x.hpp", "<upper/up.hpp>"),
            ("src/lower/x.cu", '"beside/x.hpp"'),
            ("src/upper/x.cpp", '"../lower/low.hpp"'),
            ("src/upper/x.cpp", '"beside/x.hpp"'),
            ("src/upper/x.cpp", "UPPER_HEADER"),
            ("include/zipccl/x.hpp", '"lower/low.hpp"'),
            ("examples/x.cpp", '"lower/low.hpp"'),
            ("bench/x.cpp", '"../src/lower/low.hpp"'),
            ("tools/x.cpp", '"upper/up.hpp"'),
            ("tools/x.cpp", "<zipccl/side.hpp>"),
            ("tools/x.cpp", "<zipccl/unlisted.hpp>"),
            ("tools/x.cpp", '"../src/upper/up.hpp"'),
            ("preload/x.cpp", '"lower/low.hpp"'),
            ("preload/x.cpp", "<zipccl/side.hpp>"),
            ("tests/upper/x.cpp", '"../../src/upper/up.hpp"'),
        ]:
            planted = {path: f"{CPP}#include <cstdint>\n  #  include {include}\n"}
            self.assertEqual(self.faults("floors", planted), [(path, 6)], (path, include))

    def test_floors_wants_every_folder_in_the_table(self):
        self.assertEqual(self.faults("floors", {"src/new/x.cpp": CPP}), [("src/new/x.cpp", 1)])

    def test_floors_rejects_a_wrong_table(self):
        for wrong in [
            "No table.\n",
            ARCHITECTURE.replace("| lower |", "| nothing |"),
            ARCHITECTURE.replace("| b | - |", "| b | upper |"),
            ARCHITECTURE.replace("| c | - |", "| c | lower |"),
            ARCHITECTURE.replace("public headers of upper", "the C API"),
            ARCHITECTURE.replace("public headers of upper", "public headers of nothing"),
        ]:
            with self.assertRaises(ValueError):
                self.faults("floors", {"docs/architecture.md": wrong})

    def test_quiet(self):
        for statement in [
            'printf("x");',
            'std::printf("x");',
            'puts ("x");',
            'fprintf(stdout, "x");',
            "std::cout << 1;",
            "std::abort();",
            "if (bad) abort();",
            "else abort();",
            "return abort();",
            "::exit(1);",
            "_exit(1);",
            "std::terminate();",
        ]:
            for path in ("src/upper/x.cpp", "preload/x.cpp"):
                planted = {path: f"{CPP}/* a\n */ // b\n{statement}\n"}
                self.assertEqual(self.faults("quiet", planted), [(path, 7)], statement)

    def test_quiet_reads_code_only(self):
        for harmless in [
            "// printf(",
            "/* abort(); */",
            'log("exit(1)");',
            'log(R"(puts("x"))");',
            "std::snprintf(text, 2, kFormat);",
            'std::fprintf(stderr, "x");',
            "request.abort();",
            "comm->abort();",
            "void abort(Reason reason) noexcept;",
            "void Transport::abort(Reason reason) noexcept { doAbort(reason); }",
            "zipcclCommAbort(comm);",
            "auto n = 1'000'000; checkExit();",
        ]:
            self.assertEqual(self.faults("quiet", {"src/upper/x.cpp": CPP + harmless}), [], harmless)

    def test_paths(self):
        for line in [
            "See `src/lower/gone.hpp`.",
            "See `src/gone/`.",
            "See `GONE.md`.",
            "See [this](gone.md).",
            "See [this](../gone/x.md#part).",
        ]:
            self.assertEqual(self.faults("paths", {"docs/x.md": "\n" + line}), [("docs/x.md", 2)], line)

    def test_paths_knows_what_is_no_path(self):
        for line in [
            "`src/*.cpp`, `src/FLOOR/<name>`, `and/or`, `tests/rules/`, `a b/c`",
            "```\n`src/gone.hpp`\n```",
            "[site](https://example.org/x), [here](#part), [up](../README.md)",
        ]:
            self.assertEqual(self.faults("paths", {"docs/x.md": line}), [], line)


if __name__ == "__main__":
    unittest.main()
