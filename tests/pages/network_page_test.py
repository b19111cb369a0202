#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# The page of scripts/netns_bench.sh, from the measurements in docs/, and the picture of README, in a headless Chromium:
# from file://, without a network, on a phone and in the dark. Pictures of them are left in a folder, to be looked at. Ends
# with 77 where there is no Chromium.

import argparse
import json
import pathlib
import sys
import unittest

import page_testing
from page_testing import DESKTOP, PHONE, SMALL_PHONE

ROOT = pathlib.Path(__file__).resolve().parents[2]

sys.path.insert(0, str(ROOT / "bench"))
import network_page  # noqa: E402 (the path first)


class NetworkPageTest(page_testing.PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.document = json.loads((ROOT / "docs/measurements/network.json").read_text())
        cls.page = cls.folder / "page.html"
        cls.page.write_text(network_page.page(cls.document), encoding="ascii")

    def test_it_asks_for_nothing_and_says_what_was_measured(self):
        self.show(self.page)
        self.assert_quiet(self.page)
        rows = self.browser.evaluate(
            "[...document.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")
        self.assertEqual(
            sorted((row[1], row[5], row[6]) for row in rows),
            sorted(
                (
                    f"{result['report']['results'][0]['sizeBytes'] / 2**20:g} MiB",
                    f"{result['zipcclUs'] / 1000:.2f}",
                    f"{result['speedup']['median']:.2f}",
                )
                for result in self.document["results"]
            ),
        )
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('circle').length"), len(rows))

    def test_names_are_text(self):
        hostile = "</td><script>document.title = 'owned'</script>"
        document = json.loads(json.dumps(self.document))
        for result in document["results"]:
            result["algorithm"] = hostile
            result["report"]["data"]["source"] = hostile
            result["report"]["machine"]["cpuModel"] = hostile
        path = self.page.with_name("hostile.html")
        path.write_text(network_page.page(document), encoding="ascii")
        self.show(path)
        self.assertEqual(self.browser.complaints, [])
        self.assertEqual(self.browser.evaluate("document.title"), "ZipCCL between hosts")
        self.assertEqual(self.browser.evaluate("document.scripts.length"), 0)
        self.assertIn(hostile, self.browser.evaluate("document.querySelector('tbody').textContent"))

    def test_it_fits_every_width(self):
        for size in (DESKTOP, PHONE, SMALL_PHONE):
            self.show(self.page, size)
            self.assertEqual(self.browser.evaluate("document.documentElement.scrollWidth"), size[0])

    def test_pictures_to_look_at(self):
        for name, path in (("network", self.page), ("speedup", ROOT / "docs/speedup.svg")):
            self.take_pictures(ARGUMENTS.pictures, name, lambda size, dark, path=path: self.show(path, size, dark))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", required=True)
    ARGUMENTS, rest = page_testing.parse(parser)
    unittest.main(argv=rest, verbosity=2)
