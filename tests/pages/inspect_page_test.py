#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# The page of `zipccl inspect --html` in a headless Chromium, as a reader uses it: from file://, without a network, on a
# phone, in the dark, by keyboard, and with names that would like to be a program. Pictures of it are left in a folder,
# to be looked at. Ends with 77 where there is no Chromium.

import argparse
import json
import pathlib
import random
import struct
import subprocess
import unittest

import page_testing
from page_testing import DESKTOP, PHONE, SMALL_PHONE

READY = "document.documentElement.dataset.ready === 'yes'"
HOSTILE = "</script><script>document.title='owned'</script><img src=http://127.0.0.1:9/x onerror=alert(1)><!--"


def bfloat16(values):
    return b"".join(struct.pack("<f", value)[2:] for value in values)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class InspectPageTest(page_testing.PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.report = cls.inspect("sample", *sorted(pathlib.Path(ARGUMENTS.data).glob("*.safetensors")))

    @classmethod
    def inspect(cls, name, *files):
        """Makes the page NAME.html; returns what the JSON says of the same files."""
        words = [ARGUMENTS.zipccl, "inspect", *map(str, files), "--html", str(cls.folder / f"{name}.html")]
        ended = subprocess.run([*words, "--json", "-"], stdout=subprocess.PIPE, check=True)
        return json.loads(ended.stdout)

    def open(self, name="sample", size=DESKTOP, dark=False):
        self.show(self.folder / f"{name}.html", size, dark)
        self.browser.wait_until(READY)

    def ask(self, expression):
        return self.browser.evaluate(expression)

    def text(self, selector):
        return self.ask(f"document.querySelector({json.dumps(selector)}).textContent")

    def texts(self, selector):
        return self.ask(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")

    # ---- The driver itself ----

    def test_the_browser_would_notice(self):
        path = self.folder / "faulty.html"
        path.write_text("<!DOCTYPE html><img src='http://127.0.0.1:9/x'><script>nothing.like.it()</script>")
        self.browser.open(path)
        self.browser.wait_until("document.readyState === 'complete'")
        self.assertIn("http://127.0.0.1:9/x", self.browser.requests)
        self.assertIn("ReferenceError", "".join(self.browser.complaints))

    # ---- What it shows ----

    def test_it_is_one_file_that_asks_for_nothing(self):
        self.open()
        self.assert_quiet(self.folder / "sample.html")
        self.assertEqual(self.ask("document.querySelectorAll('[src], link[rel=stylesheet]').length"), 0)
        page = (self.folder / "sample.html").read_bytes()
        self.assertLess(max(page), 127)
        self.assertNotIn(b"http://", page.replace(b"http://www.w3.org/2000/svg", b""))
        self.assertNotIn(b"https://", page)

    def test_the_policy_of_the_page_forbids_the_network(self):
        self.open()
        self.ask("document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.1:9/y' }))")
        self.browser.wait_until("document.images[0].complete")
        self.assertIn("Content Security Policy", "".join(self.browser.complaints))

    def test_the_figures_are_those_of_the_json(self):
        self.open()
        ratio = self.report["bytes"] / self.report["wireBytes"]
        self.assertIn(f"{ratio:.2f} times", self.text("#lead"))
        rows = self.ask("[...document.querySelectorAll('#totals tbody tr')]"
                        ".map((row) => [...row.cells].map((cell) => cell.textContent))")
        self.assertEqual([row[0] for row in rows], [total["dtype"] for total in self.report["totals"]])
        for row, total in zip(rows, self.report["totals"], strict=True):
            self.assertEqual(row[4], f"{total['bytes'] / total['wireBytes']:.3f}")
            self.assertEqual(row[5], f"{total['bitsPerValue']:.2f}" if total["encoded"] else "as they are")
        encoded = [tensor for tensor in self.report["tensors"] if tensor["encoded"]]
        self.assertEqual(len(self.texts("#ratios .name")), len(encoded))
        self.ask("document.getElementById('sort').value = 'given';"
                 "document.getElementById('sort').dispatchEvent(new Event('change'))")
        self.assertEqual(self.texts("#ratios .name"), [tensor["name"] for tensor in encoded])
        self.assertEqual(self.texts("#ratios .ratio"), [f"{tensor['ratio']:.2f}" for tensor in encoded])

    def test_the_histogram_is_the_tensor_that_was_picked(self):
        numbers = random.Random(3)
        count, sigma = 64 * 1024, 0.02
        write_safetensors(self.folder / "gauss.safetensors",
                          {"g": ("BF16", [count], bfloat16(numbers.gauss(0, sigma) for _ in range(count)))})
        tensor = self.inspect("gauss", self.folder / "gauss.safetensors")["tensors"][0]
        self.open("gauss")
        self.ask("document.getElementById('picked').selectedIndex = 1;"
                 "document.getElementById('picked').dispatchEvent(new Event('change'))")
        self.assertEqual(self.ask("document.getElementById('picked').selectedOptions[0].textContent"), "g (BF16)")
        bars = self.ask("[...document.querySelectorAll('#bins tbody tr')].map((row) =>"
                        "[...row.cells].map((cell) => parseFloat(cell.textContent.replace('\\u2212', '-'))))")
        # 0.02 lies in the octave of 2^-6: seven exponents from -11 on, without a tile that differs.
        self.assertEqual([bar[0] for bar in bars if bar[3] > 0], list(range(-11, -4)))
        self.assertAlmostEqual(sum(bar[3] for bar in bars) / 100, tensor["insideShare"], delta=1e-3)
        self.assertAlmostEqual(sum(bar[4] for bar in bars) / 100, 1 - tensor["insideShare"], delta=1e-3)
        for bar in bars:
            self.assertAlmostEqual(bar[1], bar[2], delta=1.0)  # a Gaussian looks like one
        self.assertEqual(self.ask("document.querySelectorAll('#histogram rect.inside').length"), 7)
        self.assertEqual(self.ask("document.querySelectorAll('#histogram circle').length"), len(bars))
        self.assertIn("The window is \u221211 to \u22125.", self.ask(
            "document.querySelector('#histogram svg').getAttribute('aria-label')"))
        band, first = self.ask("['.band', 'rect.inside'].map((one) =>"
                               "document.querySelector('#histogram ' + one).getBoundingClientRect().left)")
        self.assertAlmostEqual(band, first, delta=4)
        # With the tiles' windows lined up the same bars have other names.
        self.ask("document.getElementById('aligned').click()")
        lined = self.ask("[...document.querySelectorAll('#bins tbody tr')].map((row) =>"
                         "parseFloat(row.cells[3].textContent))")
        self.assertAlmostEqual(sum(lined) / 100, tensor["insideShare"], delta=1e-3)

    def test_the_all_gather_is_arithmetic(self):
        self.open()
        total, wire = self.report["bytes"], self.report["wireBytes"]
        for gigabits, ranks in ((1, 4), (400, 16)):
            self.ask(f"for (const [id, value] of [['speed', {gigabits}], ['ranks', {ranks}]]) {{"
                     "document.getElementById(id).value = value;"
                     "document.getElementById(id).dispatchEvent(new Event('input')); }")
            shown = []
            for text in self.texts("#times strong"):
                value, unit = text.split()
                shown.append(float(value) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit])
            for seconds, bytes_ in zip(shown, (total, wire), strict=True):
                expected = bytes_ * (ranks - 1) / ranks / (gigabits * 1e9 / 8)
                self.assertAlmostEqual(seconds / expected, 1, delta=0.01)
            least = gigabits / 8 / (1 - wire / total) * ranks / (ranks - 1)
            self.assertIn(f"from {float(f'{least:.3g}'):g}", self.text("#verdict"))
        self.ask("document.getElementById('speed').value = '';"
                 "document.getElementById('speed').dispatchEvent(new Event('input'))")
        self.assertEqual(self.texts("#times strong"), [])
        self.assert_quiet(self.folder / "sample.html")

    # ---- Names from anywhere, many tensors, none ----

    def test_names_are_text(self):
        write_safetensors(self.folder / "names.safetensors", {HOSTILE: ("BF16", [2], b"abcd")})
        self.inspect("names", self.folder / "names.safetensors")
        self.open("names")
        self.assert_quiet(self.folder / "names.html")
        self.assertEqual(self.ask("document.title"), "names.safetensors: zipccl inspect")
        self.assertEqual(self.texts("#ratios .name"), [HOSTILE])
        self.assertEqual(self.ask("document.images.length"), 0)

    def test_many_tensors(self):
        tensors = {f"layer.{n}.weight": ("BF16", [1024], bfloat16([n + 1.0]) * 1024) for n in range(2100)}
        write_safetensors(self.folder / "many.safetensors", tensors)
        self.inspect("many", self.folder / "many.safetensors")
        self.open("many")
        self.assertEqual(len(self.texts("#ratios li")), 40)
        self.assertIn("100 smaller ones are in the totals only", self.text("#shown"))
        self.ask("document.getElementById('more').click()")
        self.assertEqual(len(self.texts("#ratios li")), 2000)
        self.assertTrue(self.ask("document.getElementById('more').hidden"))
        self.assert_quiet(self.folder / "many.html")

    def test_nothing_to_draw(self):
        write_safetensors(self.folder / "ints.safetensors", {"i": ("I32", [2], b"12345678")})
        self.inspect("ints", self.folder / "ints.safetensors")
        write_safetensors(self.folder / "none.safetensors", {})
        self.inspect("none", self.folder / "none.safetensors")
        for name, words in (("ints", "8 B of values travel as 8 B"), ("none", "There are no values")):
            self.open(name)
            self.assert_quiet(self.folder / f"{name}.html")
            self.assertIn(words, self.text("#lead"))
            self.assertIn("nothing was encoded", self.text("#ratio-note"))

    # ---- How it is read ----

    def test_it_fits_every_width(self):
        for size in (DESKTOP, PHONE, SMALL_PHONE):
            self.open(size=size)
            self.assertEqual(self.ask("document.documentElement.scrollWidth"), size[0])
            beyond = self.ask("[...document.querySelectorAll('body *')].filter((one) => !one.closest('.scroll') &&"
                              "one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML)")
            self.assertEqual(beyond, [])
            # Labels of the axis do not run into each other.
            overlaps = self.ask("(() => { const boxes = [...document.querySelectorAll('#histogram text')]"
                                ".map((one) => one.getBoundingClientRect()); return boxes.some((a, i) =>"
                                "boxes.slice(i + 1).some((b) => a.left < b.right && b.left < a.right &&"
                                "a.top < b.bottom - 2 && b.top < a.bottom - 2)); })()")
            self.assertFalse(overlaps, size)
            if size != DESKTOP:
                small = self.ask("[...document.querySelectorAll('button, input, select')].filter((one) =>"
                                 "one.offsetParent && one.type !== 'checkbox' &&"
                                 "one.getBoundingClientRect().height < 36).length")
                self.assertEqual(small, 0, "a finger can hit what can be pressed")

    def test_it_can_be_read_in_the_light_and_in_the_dark(self):
        contrast = """(selector) => {
          const numbers = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
          const light = (colour) => numbers(colour).map((c) => c / 255)
            .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
          const style = getComputedStyle(document.querySelector(selector));
          let back = document.querySelector(selector);
          while (getComputedStyle(back).backgroundColor === 'rgba(0, 0, 0, 0)') back = back.parentElement;
          const ink = style.fill !== 'rgb(0, 0, 0)' && selector.includes('#histogram') ? style.fill : style.color;
          const [a, b] = [light(ink), light(getComputedStyle(back).backgroundColor)];
          return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        }"""
        papers = []
        for dark in (False, True):
            self.open(dark=dark)
            papers.append(self.ask("getComputedStyle(document.body).backgroundColor"))
            for selector in ("h1", "#lead strong", "#made", "#picked", ".legend li", "#facts dt", "#facts dd", "#bins th",
                             "#ratios .name", "#ratios .size", "#totals td", "#presets button", "#verdict"):
                self.assertGreaterEqual(self.ask(f"({contrast})({json.dumps(selector)})"), 4.5, (selector, dark))
            for selector in ("#histogram rect.inside", "#histogram rect.outside"):
                self.assertGreaterEqual(self.ask(f"({contrast})({json.dumps(selector)})"), 2.5, (selector, dark))
        self.assertNotEqual(*papers)

    def test_everything_can_be_done_by_keyboard(self):
        self.open()
        focused = "(document.activeElement.id || document.activeElement.closest('[id]')?.id || '')"

        def tab_to(wanted):
            for _ in range(40):
                self.browser.press("Tab")
                if self.ask(focused) == wanted:
                    outline = self.ask("getComputedStyle(document.activeElement).outlineWidth")
                    self.assertGreaterEqual(float(outline.removesuffix("px")), 2, wanted)
                    return
            self.fail(f"no way to {wanted}")

        tab_to("picked")
        for _ in range(len(self.report["totals"])):
            self.browser.press("Down")
        self.assertNotIn("All", self.ask("document.getElementById('picked').selectedOptions[0].textContent"))
        before = self.texts("#bins th")
        tab_to("aligned")
        self.browser.press("Space")
        self.assertNotEqual(self.texts("#bins th"), before)
        tab_to("filter")
        self.browser.type("mlp_out")
        self.assertEqual(self.texts("#ratios .name"), ["actgrad.mlp_out.1.step199"])
        tab_to("sort")
        tab_to("ratios")
        self.browser.press("Enter")
        self.assertIn("mlp_out", self.ask("document.getElementById('picked').selectedOptions[0].textContent"))
        self.assertEqual(self.ask("document.activeElement.getAttribute('aria-current')"), "true")
        tab_to("speed")
        tab_to("ranks")
        tab_to("presets")
        self.browser.press("Enter")
        self.assertEqual(self.ask("document.getElementById('speed').value"), "1")
        self.assert_quiet(self.folder / "sample.html")

    def test_pictures_to_look_at(self):
        contents = self.take_pictures(ARGUMENTS.pictures, "inspect", lambda size, dark: self.open(size=size, dark=dark))
        self.assertGreater(min(map(len, contents)), 20_000)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--zipccl", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--pictures", required=True)
    ARGUMENTS, rest = page_testing.parse(parser)
    unittest.main(argv=rest, verbosity=2)
