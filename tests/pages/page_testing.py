# SPDX-License-Identifier: Apache-2.0
#
# What the tests of pages share: a headless Chromium and a folder for all tests of a class, the sizes of screens, and
# pictures to be looked at. A program of them ends with 77 where there is no Chromium.

import pathlib
import sys
import tempfile
import unittest

import chromium

SKIPPED = 77
DESKTOP, PHONE, SMALL_PHONE = (1280, 900), (390, 844), (320, 568)


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = chromium.Chromium(chromium.find())
        cls.addClassCleanup(cls.browser.__exit__)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def show(self, path, size=DESKTOP, dark=False):
        self.browser.look(*size, dark, touch=size != DESKTOP)
        self.browser.open(path)

    def assert_quiet(self, path):
        """The page that is shown has no fault and asked for nothing but itself."""
        self.assertEqual(self.browser.complaints, [])
        self.assertEqual(self.browser.requests, [path.as_uri()])

    def take_pictures(self, folder, name, show):
        """By `show(size, dark)`, of a desktop and a phone, in the light and in the dark; returns the pictures."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        contents = []
        for form, size in (("desktop", DESKTOP), ("phone", PHONE)):
            for dark in (False, True):
                show(size, dark)
                path = folder / f"{name}-{form}-{'dark' if dark else 'light'}.png"
                self.browser.picture(path)
                contents.append(path.read_bytes())
        self.assertEqual(len(set(contents)), 4, f"pictures of {name} are alike")
        return contents


def parse(parser):
    """The program's own arguments, and those for unittest."""
    arguments, rest = parser.parse_known_args()
    if chromium.find() is None:
        print("skipped: no Chromium (Debian: chromium)")
        sys.exit(SKIPPED)
    return arguments, [sys.argv[0], *rest]
