"use strict";
// Draws the data of this page. All text is put in as text: a path is never taken for markup.
const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);
const MOST_ROWS = 1000;
const COLORS = 7;
const TIP_LINES = 12;
const OPEN_FAILURES = 5;
const kindColor = new Map(data.kinds.slice(0, COLORS).map((kind, at) => [kind.name, `--c${at}`]));
const critical = new Set(data.critical_path);
const jobsById = new Map(data.jobs.map((job) => [job.job, job]));
const inOrder = data.jobs.slice().sort((a, b) => a.start_ms - b.start_ms);
const whole = [0, Math.max(data.wall_ms, 1)];
let range = whole;

function element(name, text, className) {
    const it = document.createElement(name);
    if (text !== undefined) it.textContent = text;
    if (className) it.className = className;
    return it;
}

function time(ms) {
    if (Math.abs(ms) < 1000) return `${Math.round(ms)} ms`;
    if (Math.abs(ms) < 60000) return `${(ms / 1000).toFixed(1)} s`;
    const seconds = Math.floor(ms / 1000), two = (n) => String(n).padStart(2, "0");
    if (seconds < 3600) return `${Math.floor(seconds / 60)}:${two(seconds % 60)} min`;
    return `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)} h`;
}

function memory(kib) {
    if (!kib) return "";
    if (kib < 1024) return `${kib} KiB`;
    return kib < 1048576 ? `${Math.round(kib / 1024)} MiB` : `${(kib / 1048576).toFixed(1)} GiB`;
}

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const percent = (part, all) => (all > 0 ? `${Math.round((100 * part) / all)} %` : "");

// ---- What is said at the top.

function tile(name, value, note) {
    const box = element("div");
    box.append(element("dt", name), element("dd", value));
    box.lastChild.append(element("small", note || "\u00a0"));
    by("tiles").append(box);
}

function summary() {
    const targets = data.targets.length ? data.targets.join(" ") : "the default targets";
    const began = new Date(data.began_unix_ms).toLocaleString();
    by("what").textContent = `${targets} in ${data.dir}, ${began}: ${data.result}. Session ${data.session}.`;
    const mean = (sum) => (sum / Math.max(data.wall_ms, 1)).toFixed(2);
    const limit = data.parallelism ? `of ${data.parallelism} allowed, on average` : "on average";
    tile("time", time(data.wall_ms));
    const failed = data.jobs.filter((job) => job.failed).length;
    tile("commands", String(data.jobs.length), `in ${data.lanes} lanes${failed ? `, ${failed} failed` : ""}`);
    tile("at a time", mean(data.busy_ms), limit);
    tile("processors at work", mean(data.cpu_ms), `of ${data.processors}, on average`);
    if (data.starts.length) {
        const share = `${percent(data.starting_us / 1000, data.cpu_ms)} of the processor time, estimated`;
        tile("starting programs", time(data.starting_us / 1000), share);
    }
    tile("critical path", time(data.critical_path_ms), `${percent(data.critical_path_ms, data.wall_ms)} of the time`);
}

// ---- Drawings. Both have the same axis of time.

const MARGIN = { left: 44, right: 12, top: 10, bottom: 22 };

function prepare(canvas, height) {
    const width = canvas.clientWidth, scale = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    const inner = width - MARGIN.left - MARGIN.right;
    const x = (ms) => MARGIN.left + (inner * (ms - range[0])) / (range[1] - range[0]);
    return { context, width, height, x, bottom: height - MARGIN.bottom };
}

function step(span, count) {
    const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
}

function timeAxis({ context, x, width, bottom }) {
    const every = Math.max(step(range[1] - range[0], 8), 1);
    context.fillStyle = color("--faint");
    context.strokeStyle = color("--line");
    for (let at = Math.ceil(range[0] / every) * every; at <= range[1]; at += every) {
        context.beginPath();
        context.moveTo(x(at), MARGIN.top);
        context.lineTo(x(at), bottom);
        context.stroke();
        context.textAlign = x(at) > width - 40 ? "right" : "center";
        context.fillText(time(at), Math.min(x(at), width - 4), bottom + 15);
    }
}

function line(drawing, values, y, name, filled) {
    const { context, x, bottom } = drawing, length = whole[1] / values.length;
    context.save();
    context.beginPath();
    context.rect(MARGIN.left, 0, drawing.width - MARGIN.left - MARGIN.right, drawing.height);
    context.clip();
    context.beginPath();
    values.forEach((value, at) => {
        context.lineTo(x(at * length), y(value / 100));
        context.lineTo(x((at + 1) * length), y(value / 100));
    });
    context.strokeStyle = context.fillStyle = color(name);
    context.lineWidth = 1.5;
    context.stroke();
    if (filled) {
        context.lineTo(x(whole[1]), bottom);
        context.lineTo(x(0), bottom);
        context.globalAlpha = 0.15;
        context.fill();
    }
    context.restore();
}

function drawHeld({ context, x, width, bottom }) {
    context.fillStyle = color("--bad");
    context.globalAlpha = 0.15;
    for (const pause of data.throttled) {
        const left = Math.max(x(pause.start_ms), MARGIN.left);
        const right = Math.min(x(pause.start_ms + pause.wall_ms), width - MARGIN.right);
        if (right > left) context.fillRect(left, MARGIN.top, Math.max(right - left, 0.7), bottom - MARGIN.top);
    }
    context.globalAlpha = 1;
}

function drawLoad() {
    const drawing = prepare(by("load"), 160), { context, bottom } = drawing;
    const most = Math.max(1, data.lanes, ...data.cpu_percent.map((value) => value / 100));
    const y = (value) => bottom - ((bottom - MARGIN.top) * value) / most;
    drawHeld(drawing);
    timeAxis(drawing);
    context.textAlign = "right";
    const every = Math.max(1, step(most, 4));
    for (let value = 0; value <= most; value += every) context.fillText(String(value), MARGIN.left - 6, y(value) + 4);
    line(drawing, data.running_percent, y, "--c0", true);
    line(drawing, data.cpu_percent, y, "--c1", false);
}

const laneHeight = () => Math.max(2, Math.min(18, Math.floor(720 / Math.max(data.lanes, 1))));

function drawLanes() {
    const tall = laneHeight(), only = by("only-critical").checked;
    const drawing = prepare(by("lanes"), MARGIN.top + MARGIN.bottom + tall * data.lanes);
    const { context, x, width } = drawing;
    timeAxis(drawing);
    context.textAlign = "right";
    const every = Math.max(1, Math.ceil(16 / tall));
    for (let lane = 0; lane < data.lanes; lane += every) {
        context.fillText(String(lane + 1), MARGIN.left - 6, MARGIN.top + lane * tall + Math.min(tall, 16) - 4);
    }
    const colors = new Map([...kindColor].map(([kind, name]) => [kind, color(name)]));
    const rest = color("--rest"), red = color("--critical"), bad = color("--failed");
    for (const job of inOrder) {
        const end = job.start_ms + job.wall_ms, isCritical = critical.has(job.job);
        if (end < range[0] || job.start_ms > range[1]) continue;
        const left = Math.max(x(job.start_ms), MARGIN.left), right = Math.min(x(end), width - MARGIN.right);
        const top = MARGIN.top + job.lane * tall, wide = Math.max(right - left - (right - left > 3 ? 1 : 0), 0.7);
        context.globalAlpha = only && !isCritical ? 0.12 : 0.9;
        context.fillStyle = job.failed ? bad : colors.get(job.kind) || rest;
        context.fillRect(left, top, wide, tall - (tall > 4 ? 2 : 0));
        if (isCritical) {
            context.globalAlpha = 1;
            context.fillStyle = red;
            context.fillRect(left, top + tall - (tall > 4 ? 4 : 1), wide, tall > 4 ? 2 : 1);
        }
    }
    context.globalAlpha = 1;
}

function draw() {
    drawLoad();
    drawLanes();
}

function legend() {
    const box = by("kinds-legend");
    const add = (name, text) => {
        const key = element("span", undefined, "key");
        key.style.background = `var(${name})`;
        box.append(key, text);
    };
    kindColor.forEach((name, kind) => add(name, kind));
    if (data.kinds.length > COLORS) add("--rest", "others");
    add("--critical", "on the critical path");
    if (data.jobs.some((job) => job.failed)) add("--failed", "failed");
}

// ---- What a pointer does.

function timeAt(canvas, event) {
    const box = canvas.getBoundingClientRect(), inner = box.width - MARGIN.left - MARGIN.right;
    const part = Math.min(1, Math.max(0, (event.clientX - box.left - MARGIN.left) / inner));
    return range[0] + part * (range[1] - range[0]);
}

function tip(event, text) {
    const box = by("tip");
    box.hidden = !text;
    if (!text) return;
    box.textContent = text;
    box.style.left = `${Math.min(event.clientX + 14, window.innerWidth - box.offsetWidth - 8)}px`;
    box.style.top = `${Math.min(event.clientY + 14, window.innerHeight - box.offsetHeight - 8)}px`;
}

function jobAt(canvas, event) {
    const at = timeAt(canvas, event), box = canvas.getBoundingClientRect();
    const lane = Math.floor((event.clientY - box.top - MARGIN.top) / laneHeight());
    const near = (range[1] - range[0]) / box.width;
    return inOrder.find((job) => job.lane === lane && job.start_ms - near <= at && at <= job.start_ms + job.wall_ms + near);
}

function jobText(job) {
    const processors = job.unfinished ? "did not end" : `${time(job.cpu_ms)} of processors`;
    const lines = [job.title, `${time(job.wall_ms)} from ${time(job.start_ms)} on, ${processors}`];
    if (job.max_rss_kib) lines.push(`${memory(job.max_rss_kib)} of memory`);
    if (job.failed) lines.push(job.result, ...job.output.trimEnd().split("\n").slice(-TIP_LINES));
    lines.push(...(job.trouble || []));
    return lines.join("\n");
}

function loadText(at) {
    const part = Math.min(data.running_percent.length - 1, Math.floor((at / whole[1]) * data.running_percent.length));
    const number = (values) => (values[part] / 100).toFixed(1);
    return `${time(at)}\n${number(data.running_percent)} commands\n${number(data.cpu_percent)} processors`;
}

function listen(canvas, text) {
    let from = null;
    canvas.addEventListener("pointerdown", (event) => (from = timeAt(canvas, event)));
    canvas.addEventListener("pointermove", (event) => tip(event, text(event)));
    canvas.addEventListener("pointerleave", (event) => tip(event, null));
    canvas.addEventListener("pointerup", (event) => {
        const to = timeAt(canvas, event), [start, end] = [Math.min(from, to), Math.max(from, to)];
        if (from !== null && end - start > (range[1] - range[0]) / 100 && end - start >= 5) range = [start, end];
        from = null;
        draw();
    });
    canvas.addEventListener("dblclick", () => {
        range = whole;
        draw();
    });
}

// ---- Tables. A column: its name, the value by which it sorts, and what is shown of it.

const number = (name, value, show) => ({ name, value, show, isNumber: true });
const NAME = { name: "command", value: (job) => job.title };
const TIME = number("time", (job) => job.wall_ms, (ms, job) => (job.unfinished ? `${time(ms)} so far` : time(ms)));
const COLUMNS = [
    TIME,
    number("processors", (job) => (job.unfinished ? undefined : job.cpu_ms), time),
    number("memory", (job) => job.max_rss_kib, memory),
    number("expected", (job) => job.expected_ms, time),
    number("start", (job) => job.start_ms, time),
    { name: "result", value: (job) => (job.result === "succeeded" ? "" : job.result) },
    NAME,
];

function cell(column, row) {
    const value = column.value(row), shown = value === undefined ? "" : column.show ? column.show(value, row) : String(value);
    const it = element("td", shown, column.isNumber ? "number" : "name");
    if (column.tone && value !== undefined) it.classList.add(column.tone(value));
    return it;
}

function compare(a, b) {
    if (a === b) return 0;
    if (a === undefined) return -1;
    if (b === undefined) return 1;
    return a < b ? -1 : 1;
}

function table(id, columns, rows) {
    const it = by(id), head = element("tr"), body = element("tbody");
    let shown = rows;
    const fill = () => body.replaceChildren(...shown.slice(0, MOST_ROWS).map((row) => {
        const line = element("tr", undefined, row.failed ? "failed" : undefined);
        line.append(...columns.map((column) => cell(column, row)));
        return line;
    }));
    columns.forEach((column) => {
        const heading = element("th", undefined, column.isNumber ? "number" : ""), button = element("button", column.name);
        button.type = "button";
        button.addEventListener("click", () => {
            const down = heading.getAttribute("aria-sort") ? heading.getAttribute("aria-sort") === "ascending" : column.isNumber;
            head.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
            heading.setAttribute("aria-sort", down ? "descending" : "ascending");
            shown = shown.slice().sort((a, b) => (down ? -1 : 1) * compare(column.value(a), column.value(b)));
            fill();
        });
        heading.append(button);
        head.append(heading);
    });
    const top = element("thead");
    top.append(head);
    it.replaceChildren(top, body);
    fill();
    return (rows) => {
        shown = rows;
        fill();
    };
}

function tables() {
    const path = data.critical_path.map((id) => jobsById.get(id)).filter(Boolean);
    const share = number("of the path", (job) => job.wall_ms, (ms) => percent(ms, data.critical_path_ms));
    table("critical", [number("start", (job) => job.start_ms, time), TIME, share, NAME], path);
    table("kinds", [
        number("time", (kind) => kind.wall_ms, time),
        number("processors", (kind) => kind.cpu_ms, time),
        number("commands", (kind) => kind.count, String),
        number("each", (kind) => kind.wall_ms / kind.count, time),
        { name: "kind", value: (kind) => kind.name },
    ], data.kinds);
    const refill = table("commands", COLUMNS, data.jobs);
    const count = (rows) => {
        const all = rows.length > MOST_ROWS ? `${MOST_ROWS} of ${rows.length} commands` : `${rows.length} commands`;
        by("count").textContent = all;
    };
    count(data.jobs);
    by("filter").addEventListener("input", (event) => {
        const wanted = event.target.value.toLowerCase();
        const has = (text) => text.toLowerCase().includes(wanted);
        const rows = data.jobs.filter((job) => has(job.title) || job.outputs.some(has));
        count(rows);
        refill(rows);
    });
}

function failures() {
    const failed = inOrder.filter((job) => job.failed);
    by("failed-section").hidden = failed.length === 0;
    by("failed").replaceChildren(...failed.map((job) => {
        const box = element("details"), head = element("summary", `${job.outputs[0] || job.title}: ${job.result}`);
        box.open = failed.length <= OPEN_FAILURES;
        const missing = job.left_out ? `[... ${job.left_out} bytes before this are not shown ...]\n` : "";
        box.append(head, element("pre", `${job.title}\n${missing}${job.output || "It printed nothing."}`));
        return box;
    }));
}

function trouble() {
    const rows = data.jobs.flatMap((job) => (job.trouble || []).map((what) => ({ ...job, what })));
    by("trouble-section").hidden = rows.length === 0;
    table("trouble", [number("start", (row) => row.start_ms, time), TIME, { name: "what", value: (row) => row.what }, NAME], rows);
    by("held-section").hidden = by("held-legend").hidden = data.throttled.length === 0;
    table("held", [
        number("start", (pause) => pause.start_ms, time),
        number("time", (pause) => pause.wall_ms, time),
        number("idle slots", (pause) => pause.idle_ms, time),
        { name: "why", value: (pause) => pause.words },
    ], data.throttled);
}

function earlier() {
    if (!data.earlier) return;
    by("earlier-section").hidden = false;
    const other = data.earlier, change = (job) => job.wall_ms - job.earlier_ms;
    by("earlier").textContent = `Session ${other.session} of ${other.began} (UTC) took ${time(other.wall_ms)}, this one `
        + `${time(data.wall_ms)}. ${other.common} commands ran in both.`;
    const rows = data.jobs.filter((job) => job.earlier_ms !== undefined);
    rows.sort((a, b) => Math.abs(change(b)) - Math.abs(change(a)));
    const signed = (ms) => (ms > 0 ? "+" : ms < 0 ? "\u2212" : "") + time(Math.abs(ms));
    const tone = (ms) => (ms > 0 ? "bad" : "good");
    const then = number("then", (job) => job.earlier_ms, time);
    table("changes", [TIME, then, { ...number("change", change, signed), tone }, NAME], rows);
}

summary();
legend();
tables();
failures();
trouble();
earlier();
listen(by("load"), (event) => loadText(timeAt(by("load"), event)));
listen(by("lanes"), (event) => {
    const job = jobAt(by("lanes"), event);
    return job && jobText(job);
});
by("only-critical").addEventListener("change", draw);
window.addEventListener("resize", draw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
