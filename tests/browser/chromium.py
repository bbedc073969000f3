# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven by the DevTools protocol over a pair of pipes. Only Python's own library is used."""
import base64, json, os, select, shutil, subprocess, tempfile, time


def find():
    """The path of Chromium, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    return None


class Chromium:
    """Use as a context. A command that gets no answer within `limit` seconds raises TimeoutError."""

    def __init__(self, limit=60):
        self.limit, self.n, self.buffer, self.events = limit, 0, b"", []
        self.home = tempfile.mkdtemp(prefix="yoke-chromium.")
        from_browser, to_us = os.pipe()
        from_us, to_browser = os.pipe()

        def descriptors():  # the browser reads commands from descriptor 3, and writes answers to 4
            a, b = os.dup(from_us), os.dup(to_us)
            os.dup2(a, 3)
            os.dup2(b, 4)

        # A container has neither a sandbox nor a large /dev/shm. The pages are made by the test itself.
        self.process = subprocess.Popen(
            [find(), "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
             "--no-first-run", "--remote-debugging-pipe", "--force-color-profile=srgb", "--user-data-dir=" + self.home],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            env=dict(os.environ, HOME=self.home, XDG_CONFIG_HOME=self.home, XDG_CACHE_HOME=self.home),
            preexec_fn=descriptors)
        os.close(from_us)
        os.close(to_us)
        self.out, self.into, self.session = to_browser, from_browser, None
        try:
            self._attach()
        except BaseException:
            self.__exit__()
            raise

    def _attach(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.out)
        os.close(self.into)
        self.process.kill()
        self.process.wait()
        for _ in range(20):  # its helpers may still write there
            shutil.rmtree(self.home, ignore_errors=True)
            if not os.path.exists(self.home):
                break
            time.sleep(0.1)

    def _receive(self, end):
        """The next message. Messages end with a byte 0."""
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.into], [], [], left)[0]:
                raise TimeoutError("Chromium did not answer within %d s" % self.limit)
            got = os.read(self.into, 1 << 20)
            if not got:
                raise EOFError("Chromium ended")
            self.buffer += got
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.n += 1
        command = {"id": self.n, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        data, end = json.dumps(command).encode() + b"\0", time.monotonic() + self.limit
        while data:
            data = data[os.write(self.out, data):]
        while True:
            message = self._receive(end)
            if message.get("id") != self.n:
                self.events.append(message)
            elif "error" in message:
                raise RuntimeError("%s: %s" % (method, message["error"]))
            else:
                return message["result"]

    def wait_for(self, method):
        end = time.monotonic() + self.limit
        while not any(e.get("method") == method for e in self.events):
            self.events.append(self._receive(end))

    def open(self, url, width, height, dark=False):
        """Load a page. Returns what the browser reported meanwhile: messages of the console, and addresses."""
        self.events = []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")
        self.evaluate("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def reports(self):
        """The messages of the console, the errors, and the addresses that were asked for."""
        said, asked = [], []
        for e in self.events:
            method, p = e.get("method"), e.get("params", {})
            if method == "Runtime.consoleAPICalled":
                said.append("console: " + " ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
            elif method == "Runtime.exceptionThrown":
                said.append("exception: " + str(p["exceptionDetails"].get("exception", {}).get("description")))
            elif method == "Log.entryAdded":
                said.append("log: " + p["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                asked.append(p["request"]["url"])
        return said, asked

    def evaluate(self, expression):
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise RuntimeError(got["exceptionDetails"].get("exception", {}).get("description", got))
        return got["result"].get("value")

    def picture(self, path, whole=True, clip=None):
        """Write a PNG of the window, of the whole page, or of a rectangle (x, y, width, height)."""
        words = {"format": "png", "captureBeyondViewport": whole}
        if clip:
            words["clip"] = dict(zip(("x", "y", "width", "height"), clip), scale=1)
        elif whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            words["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", **words)["data"]))

    def print_pdf(self, path):
        """Print on A4 as the style sheet says."""
        got = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        with open(path, "wb") as f:
            f.write(base64.b64decode(got["data"]))
