// SPDX-License-Identifier: Apache-2.0
// What a page looks like, checked inside the browser. The value is a list of complaints.
(() => {
    const complaints = [], say = (what, e) => complaints.push(what + ": " + (e ? describe(e) : ""));
    const describe = e => (e.textContent || "").trim().slice(0, 60) + " <" + e.tagName + ">";
    const numbers = colour => (colour.match(/[\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const ground = e => {
        for (; e; e = e.parentElement) {
            const c = numbers(getComputedStyle(e).backgroundColor);
            if (c.length === 3 || c[3] > 0.99) return c;
        }
        return [255, 255, 255];
    };
    // The filled shape of the same chart that lies under the middle of a text, such as a bar with its number.
    const shape = (text, svg) => {
        const t = text.getBoundingClientRect(), x = t.x + t.width / 2, y = t.y + t.height / 2;
        let found = null;
        for (const r of svg.querySelectorAll("rect,path,polygon")) {
            if (r.closest("defs,pattern")) continue;
            const b = r.getBoundingClientRect(), style = getComputedStyle(r);
            if (text.compareDocumentPosition(r) & Node.DOCUMENT_POSITION_FOLLOWING) continue;
            if (style.fill === "none" || style.fill.startsWith("url") || Number(style.fillOpacity) < 0.5 || Number(style.opacity) < 0.5)
                continue;
            if (b.x <= x && x <= b.right && b.y <= y && y <= b.bottom) found = style.fill;
        }
        return found;
    };
    const seen = e => { const b = e.getBoundingClientRect(); return b.width > 0 && b.height > 0 && getComputedStyle(e).visibility !== "hidden"; };

    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) {
        say("the page scrolls sideways, " + root.scrollWidth + " of " + root.clientWidth);
        for (const e of document.body.querySelectorAll("*"))
            if (e.getBoundingClientRect().right > root.clientWidth + 1 && !e.closest(".scroll") && !e.closest("svg")) { say("wider than the window", e); break; }
    }
    if (!root.lang) say("no language");
    if (!document.title) say("no title");
    if (document.querySelectorAll("h1").length !== 1) say("not one h1");
    let level = 1;
    for (const h of document.querySelectorAll("h1,h2,h3,h4")) {
        const own = Number(h.tagName[1]);
        if (own > level + 1) say("a heading skips a level", h);
        level = own;
    }
    const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
    if (new Set(ids).size !== ids.length) say("an id occurs twice: " + ids.filter((id, i) => ids.indexOf(id) !== i)[0]);
    for (const name of ["aria-labelledby", "aria-describedby"])
        for (const e of document.querySelectorAll("[" + name + "]"))
            for (const id of e.getAttribute(name).split(/\s+/)) if (!document.getElementById(id)) say(name + " names nothing", e);

    // Text of the page
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const done = new Set();
    for (let node; (node = walker.nextNode());) {
        const e = node.parentElement;
        if (!node.textContent.trim() || done.has(e) || e.closest("svg,script,style") || !seen(e)) continue;
        done.add(e);
        const style = getComputedStyle(e), ratio = contrast(light(numbers(style.color)), light(ground(e)));
        if (ratio < 4.5) say("contrast " + ratio.toFixed(2), e);
        if (parseFloat(style.fontSize) < 11) say("letters of " + style.fontSize, e);
    }
    for (const t of document.querySelectorAll("table"))
        for (const h of t.querySelectorAll("th")) if (!h.scope) say("a head of a table without a scope", h);
    for (const e of document.querySelectorAll(".scroll"))
        if (e.scrollWidth > e.clientWidth + 1) {
            if (e.tabIndex < 0) say("a region that scrolls and takes no focus", e);
            if (!e.getAttribute("role") || !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby")))
                say("a region that scrolls and has no name", e);
        }
    for (const e of document.querySelectorAll("button,input,select,a,[tabindex='0']")) {
        const labelled = e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.textContent.trim() || (e.labels && e.labels.length);
        if (!labelled) say("a control without a name", e);
    }

    // Charts
    for (const svg of document.querySelectorAll("svg")) {
        if (svg.getAttribute("aria-hidden") === "true" || !seen(svg)) continue;
        const named = svg.getAttribute("aria-label") || (svg.getAttribute("aria-labelledby") || "").split(/\s+/)
            .map(id => (document.getElementById(id) || {}).textContent || "").join("").trim();
        if (svg.getAttribute("role") !== "img" || !named) say("a chart without a role or a name", svg);
        if (!svg.querySelector("desc") && !svg.getAttribute("aria-describedby")) say("a chart without a description", svg);
        const box = svg.getBoundingClientRect(), texts = [];
        for (const t of svg.querySelectorAll("text")) {
            if (!seen(t) || !t.textContent.trim()) continue;
            const b = t.getBoundingClientRect(), style = getComputedStyle(t);
            const scale = t.getScreenCTM(), size = parseFloat(style.fontSize) * Math.hypot(scale.a, scale.b);
            if (size < 9.5) say("letters of " + size.toFixed(1) + " px in a chart", t);
            if (b.left < box.left - 1.5 || b.right > box.right + 1.5 || b.top < box.top - 1.5 || b.bottom > box.bottom + 1.5)
                say("a text is cut by the edge of its chart", t);
            const under = shape(t, svg), back = under ? numbers(under) : ground(svg), ratio = contrast(light(numbers(style.fill)), light(back));
            if (ratio < 4.5) say("contrast " + ratio.toFixed(2) + " in a chart", t);
            for (const [other, o] of texts) {
                const w = Math.min(b.right, o.right) - Math.max(b.left, o.left), h = Math.min(b.bottom, o.bottom) - Math.max(b.top, o.top);
                if (w > 2 && h > 4) { say("two texts lie upon each other: " + describe(other) + " and", t); break; }
            }
            texts.push([t, b]);
        }
        for (const c of svg.querySelectorAll(".curve,rect[class]")) {
            if (c.closest("defs,pattern") || c.classList.contains("faint")) continue;
            const style = getComputedStyle(c), own = style.fill !== "none" ? style.fill : style.stroke;
            if (own.startsWith("url") || own === "none") continue;
            const n = numbers(own);
            if (n.length > 3 && n[3] < 0.5) continue;
            const ratio = contrast(light(n), light(ground(svg)));
            if (ratio < 3) say("contrast " + ratio.toFixed(2) + " of a line or bar", c);
        }
    }
    return complaints;
})()
