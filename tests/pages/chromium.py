# SPDX-License-Identifier: Apache-2.0
#
# A headless Chromium that a test drives: pages, widths, dark mode, keys, pictures, and what it asked of the network.
# By the protocol of its developer tools, over a pipe, with the standard library alone.

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--mute-audio",
    # Fonts and colours as they are, whatever the machine's screen would be.
    "--force-color-profile=srgb",
)
KEYS = {
    "Tab": {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9},
    "Enter": {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
    "Space": {"key": " ", "code": "Space", "windowsVirtualKeyCode": 32, "text": " "},
    "Down": {"key": "ArrowDown", "code": "ArrowDown", "windowsVirtualKeyCode": 40},
}
SHIFT = 8


def find():
    """The path of a Chromium; None where there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


def high(descriptor):
    """A descriptor out of the way of those that the program gets."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 64)
    os.close(descriptor)
    return moved


class Chromium:
    """One browser with one page; a context manager."""

    def __init__(self, path, seconds=120):
        self._seconds = seconds
        self._folder = tempfile.TemporaryDirectory(prefix="zipccl-chromium-", ignore_cleanup_errors=True)
        self._log = pathlib.Path(self._folder.name, "log")
        read, self._write = map(high, os.pipe())
        self._read, write = map(high, os.pipe())
        flags = [*FLAGS, f"--user-data-dir={self._folder.name}/profile"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(self._log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            (os.POSIX_SPAWN_DUP2, read, 3),
            (os.POSIX_SPAWN_DUP2, write, 4),
        ]
        environment = {**os.environ, "HOME": self._folder.name, "XDG_CONFIG_HOME": self._folder.name}
        # A group of its own: the browser is several processes.
        self._process = os.posix_spawn(path, [path, *flags], environment, file_actions=actions, setpgroup=0)
        os.close(read)
        os.close(write)
        self._buffer = b""
        self._number = 0
        self._session = None
        self.requests = []  # URLs that were asked for since the last open()
        self.complaints = []  # errors that pages met
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._read)
        os.close(self._write)
        self._folder.cleanup()

    # ---- The protocol ----

    def _fail(self, why):
        raise RuntimeError(f"Chromium: {why}\n{self._log.read_text(errors='replace')[-3000:]}")

    def _next(self, deadline):
        """The next message, read within the time that is left."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(self._read, 1 << 16) if ready else b""
            if not piece:
                self._fail("no answer" if not ready else "it ended")
            self._buffer += piece
        text, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(text)

    def _note(self, event):
        parameters = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.complaints.append(parameters["entry"]["text"])

    def call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        content = json.dumps(message).encode() + b"\0"
        while content:
            content = content[os.write(self._write, content):]
        deadline = time.monotonic() + self._seconds
        while True:
            answer = self._next(deadline)
            if answer.get("id") != self._number:
                self._note(answer)
            elif "error" in answer:
                self._fail(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    # ---- What a reader does ----

    def evaluate(self, expression):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            self._fail(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_until(self, expression):
        deadline = time.monotonic() + self._seconds
        while not self.evaluate(expression):
            if time.monotonic() > deadline:
                self._fail(f"never: {expression}; {self.complaints}")
            time.sleep(0.02)

    def look(self, width, height, dark=False, touch=False):
        """The size of the window, and the colours that the reader prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if touch else 1, mobile=touch)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, path):
        """Opens a file and waits for what its program does."""
        self.requests.clear()
        self.complaints.clear()
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        self.wait_until("document.readyState === 'complete'")

    def press(self, name, modifiers=0):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, modifiers=modifiers,
                      **(KEYS[name] if kind == "keyDown" else {k: v for k, v in KEYS[name].items() if k != "text"}))

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, path):
        """A picture of the whole page, as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))
