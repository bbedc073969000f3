# tests/browser: the pages of yoke report in a headless Chromium. It skips where there is none.
EXTRA_DIST += tests/browser/chromium.py tests/browser/look.js tests/browser/pages tests/browser/picture tests/browser/zoom
YOKE_TESTS += 'soak $(top_srcdir)/tests/browser/pages ./yoke'
YOKE_TESTS += 'soak $(top_srcdir)/tests/browser/zoom ./yoke'
