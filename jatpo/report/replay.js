// Replays of episodes. Every <section class="replay"> holds its data as JSON (Episode.to_json) and an empty
// div.replay-body; this script fills the body and moves through the frames.
(() => {
  "use strict";

  const SPACE = "http://www.w3.org/2000/svg";
  const UNIT = 100; // of the drawing, for one place
  const PAUSE = 1000; // milliseconds of a frame at speed 1
  const ICONS = {
    first: "M6 5h2v14H6zM19 5v14L9 12z",
    back: "M16 5v14L6 12z",
    play: "M7 4v16l13-8z",
    pause: "M6 5h4v14H6zM14 5h4v14h-4z",
    next: "M8 5v14l10-7z",
    last: "M16 5h2v14h-2zM5 5v14l10-7z",
  };

  function put(parent, name, attributes = {}, text = null, space = null) {
    const node = space ? document.createElementNS(space, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  }

  const draw = (parent, name, attributes, text = null) => put(parent, name, attributes, text, SPACE);
  const percent = (share) => (share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(100 * share)} %`);
  const number = (value) => String(Math.round(100 * value) / 100).replace("-", "−");
  const clear = (node) => node.replaceChildren();
  const kinds = { agent: "agent", teammate: "teammate", prey: "prey" };
  const classOf = (who) => `who-${kinds[who] || "other"}`;

  // ------------------------------------------------------------------ the stage

  // A drawing of a stage. `show` puts people, words, goals and the heat of a belief onto it.
  class Picture {
    constructor(stage, label) {
      this.stage = stage;
      this.half = UNIT * (stage.links.length ? 0.34 : 0.5);
      const [left, top, width, height] = this.frame();
      this.node = put(null, "svg", { viewBox: [left, top, width, height].join(" "), role: "img", "aria-label": label }, null, SPACE);
      this.node.style.aspectRatio = `${width} / ${height}`;
      this.wide = width > 9 * UNIT && width > 1.3 * height;
      this.places();
      this.layers = Object.fromEntries(
        ["heat", "goals", "words", "ghosts", "people"].map((name) => [name, draw(this.node, "g", { class: `replay-${name}` })])
      );
      this.people = {};
    }

    frame() {
      const xs = this.stage.places.map((place) => UNIT * place.x);
      const ys = this.stage.places.map((place) => UNIT * place.y);
      const edge = this.half + UNIT * (this.stage.links.length ? 0.34 : 0.05);
      const axis = this.stage.links.length ? 0 : 0.36 * UNIT; // room for the numbers of columns and rows
      const left = Math.min(...xs) - edge - axis, top = Math.min(...ys) - edge - axis;
      return [left, top, Math.max(...xs) + edge - left, Math.max(...ys) + edge - top];
    }

    at(number) {
      const place = this.stage.places[number];
      return { x: UNIT * place.x, y: UNIT * place.y };
    }

    square(parent, number, half, attributes) {
      const { x, y } = this.at(number);
      return draw(parent, "rect", { x: x - half, y: y - half, width: 2 * half, height: 2 * half, ...attributes });
    }

    places() {
      const ground = draw(this.node, "g", { class: "replay-ground" });
      for (const [a, b] of this.stage.links) {
        const one = this.at(a), other = this.at(b);
        draw(ground, "line", { x1: one.x, y1: one.y, x2: other.x, y2: other.y, class: "link" });
      }
      this.stage.places.forEach((place, number) => {
        this.square(ground, number, this.half, { class: `place ${place.kind}`, rx: this.stage.links.length ? 10 : 0 });
      });
      if (!this.stage.links.length) this.axes(ground);
    }

    // The numbers of columns and rows, by which names such as "goals 1,4" refer to cells.
    axes(ground) {
      const [left, top] = this.frame();
      for (const x of new Set(this.stage.places.map((place) => place.x))) {
        draw(ground, "text", { x: UNIT * x, y: top + 27, class: "axis" }, String(x));
      }
      for (const y of new Set(this.stage.places.map((place) => place.y))) {
        draw(ground, "text", { x: left + 18, y: UNIT * y + 9, class: "axis" }, String(y));
      }
    }

    show(snapshot, { heat = null, ghosts = null, over = false } = {}) {
      for (const name of ["heat", "goals", "words", "ghosts"]) clear(this.layers[name]);
      if (heat) this.heat(heat);
      for (const number of snapshot.goals) this.square(this.layers.goals, number, 0.87 * this.half, { class: "ring" });
      this.words(snapshot);
      if (ghosts) this.crowd(ghosts.positions, (who, spot) => this.ghost(who, spot));
      if (!heat) this.move(snapshot);
      this.node.classList.toggle("over", over);
    }

    // Half a place for each of two people, its strength the square root of the probability.
    heat(heat) {
      const names = this.stage.uncertain;
      const halves = names.length > 1 ? ["-1,1 -1,-1 1,-1", "1,-1 1,1 -1,1"] : ["-1,-1 1,-1 1,1 -1,1"];
      names.forEach((who, order) => {
        for (const [number, chance] of heat[who] || []) {
          const { x, y } = this.at(number);
          const points = halves[order].split(" ").map((pair) => {
            const [dx, dy] = pair.split(",").map(Number);
            return `${x + dx * this.half},${y + dy * this.half}`;
          });
          const spot = draw(this.layers.heat, "polygon", { points: points.join(" "), class: classOf(who), "fill-opacity": (0.85 * Math.sqrt(chance)).toFixed(3) });
          draw(spot, "title", {}, `${this.stage.roles[who]} here: ${percent(chance)}`);
        }
      });
    }

    words(snapshot) {
      const linked = this.stage.links.length > 0;
      this.stage.places.forEach((place, number) => {
        const { x, y } = this.at(number);
        const mark = snapshot.marks[number];
        if (place.name) this.name(place.name, x, linked ? y + this.half + 17 : y + 40, linked);
        if (mark) draw(this.layers.words, "text", { x, y: linked ? y - this.half - 8 : y + 6, class: "mark" }, mark);
      });
    }

    // A long name below a room takes two lines.
    name(text, x, y, linked) {
      const cut = linked && text.length > 10 ? text.lastIndexOf(" ") : -1;
      const lines = cut > 1 ? [text.slice(0, cut), text.slice(cut + 1)] : [text];
      const node = draw(this.layers.words, "text", { x, y, class: "name" });
      lines.forEach((line, place) => draw(node, "tspan", { x, dy: place ? 16 : 0 }, line));
    }

    // Calls `each(who, spot)` for everybody; those who share a place stand side by side.
    crowd(positions, each) {
      for (const [who, number] of Object.entries(positions)) {
        const company = Object.keys(positions).filter((name) => positions[name] === number);
        const shift = 0.84 * this.half * (company.indexOf(who) - (company.length - 1) / 2);
        const { x, y } = this.at(number);
        each(who, { x: x + shift, y, size: (company.length > 1 ? 0.76 : 1.1) * this.half });
      }
    }

    shape(parent, who, attributes) {
      const kind = kinds[who];
      if (kind === "agent") return draw(parent, "circle", { r: 50, ...attributes });
      if (kind === "teammate") return draw(parent, "rect", { x: -46, y: -46, width: 92, height: 92, rx: 12, ...attributes });
      if (kind === "prey") return draw(parent, "polygon", { points: "0,-54 56,46 -56,46", ...attributes });
      return draw(parent, "polygon", { points: "0,-56 56,0 0,56 -56,0", ...attributes });
    }

    ghost(who, { x, y, size }) {
      const group = draw(this.layers.ghosts, "g", { transform: `translate(${x} ${y}) scale(${size / 100})` });
      this.shape(group, who, { class: `ghost ${classOf(who)}` });
      draw(group, "title", {}, `${this.stage.roles[who]} is here in truth`);
    }

    person(who) {
      const group = draw(this.layers.people, "g", { class: `person ${classOf(who)}` });
      this.shape(group, who, {});
      const letter = (this.stage.roles[who] || who)[0].toUpperCase();
      draw(group, "text", { y: kinds[who] === "prey" ? 36 : 20, class: "letter" }, letter);
      const held = draw(group, "text", { y: -62, class: "held" });
      return (this.people[who] = { group, held });
    }

    move(snapshot) {
      for (const [who, { group }] of Object.entries(this.people)) {
        if (!(who in snapshot.positions)) group.style.display = "none";
      }
      this.crowd(snapshot.positions, (who, { x, y, size }) => {
        const known = this.people[who] || this.person(who);
        const far = known.x === undefined || Math.hypot(x - known.x, y - known.y) > 1.6 * UNIT;
        known.group.classList.toggle("jump", far);
        const held = snapshot.hands[who];
        known.group.style.display = "";
        known.group.style.transform = `translate(${x}px, ${y + (held ? 8 : 0)}px) scale(${size / 100})`;
        known.held.textContent = held || "";
        Object.assign(known, { x, y });
      });
    }
  }

  // ------------------------------------------------------------------ one replay

  class Replay {
    constructor(section) {
      this.section = section;
      this.body = section.querySelector(".replay-body");
      this.episodes = JSON.parse(section.querySelector(".replay-data").textContent);
      this.speed = 1;
      this.timer = null;
      this.open(0);
      section.addEventListener("keydown", (event) => this.key(event));
    }

    open(place) {
      this.pause();
      this.episode = this.episodes[place];
      this.place = place;
      this.frames = this.episode.frames;
      this.believes = this.frames.some((frame) => frame.belief);
      this.pictures = {};
      clear(this.body);
      this.head();
      const maps = put(this.body, "div", { class: "replay-maps" });
      this.truth = this.figure(maps, "True state");
      this.mind = this.believes ? this.figure(maps, "Belief of the agent") : null;
      this.who();
      this.controls();
      const below = put(this.body, "div", { class: "replay-below" });
      this.words = put(below, "dl", { class: "replay-facts", "aria-live": "polite" });
      this.models = this.frames[0].posterior ? this.bars(below) : null;
      this.show(0);
    }

    head() {
      const { episode } = this;
      const head = put(this.body, "div", { class: "replay-head" });
      if (this.episodes.length > 1) {
        const label = put(head, "label", {}, "Episode ");
        const select = put(label, "select");
        this.episodes.forEach((each, place) => put(select, "option", { value: place }, `${each.title}, ${each.agent} (return ${number(each.return)})`));
        select.value = this.place;
        select.addEventListener("change", () => {
          this.open(Number(select.value));
          this.body.querySelector("select").focus();
        });
      }
      const parts = [episode.title, `agent ${episode.agent}`];
      if (episode.rules) parts.push(`rules ${episode.rules}`);
      parts.push(`seed ${episode.seed}`, `trial ${episode.trial}`, `${episode.steps} steps`, `return ${number(episode.return)}`);
      const list = put(head, "ul", { class: "replay-tags" });
      for (const part of parts) put(list, "li", {}, part);
      if (episode.models.length > 1) {
        const line = put(head, "p", { class: "replay-true" }, "True model: ");
        put(line, "strong", {}, episode.models[episode.truth]);
        const knowledge = { "true model": ", which this agent knows", library: ", which the agent infers", nothing: "; this agent knows no models" };
        line.append(`${knowledge[episode.knows] || ""}.`);
      }
    }

    figure(parent, title) {
      const node = put(parent, "figure");
      const caption = put(node, "figcaption");
      put(caption, "strong", {}, title);
      const model = put(caption, "span"), text = put(caption, "span");
      return { node, model, text, drawing: put(node, "div", { class: "replay-drawing" }), title };
    }

    // The legend: who is who, and what the shades mean.
    who() {
      const stage = this.episode.stages[this.episode.truth];
      if (!stage) return;
      const list = put(this.body, "ul", { class: "replay-legend", "aria-label": "Legend" });
      const corners = ["upper left half", "lower right half"];
      for (const [who, role] of Object.entries(stage.roles)) {
        const item = put(list, "li");
        const icon = draw(item, "svg", { viewBox: "-60 -60 120 120", class: `person ${classOf(who)}`, "aria-hidden": "true" });
        Picture.prototype.shape(icon, who, {});
        const half = stage.uncertain.indexOf(who);
        const shade = this.believes && half >= 0 ? ` (shaded in the ${stage.uncertain.length > 1 ? corners[half] : "belief"})` : "";
        item.append(`${role}${shade}`);
      }
      if (this.believes) {
        const item = put(list, "li");
        const icon = draw(item, "svg", { viewBox: "-60 -60 120 120", "aria-hidden": "true" });
        draw(icon, "circle", { r: 48, class: "ghost" });
        item.append("outline: where they are in truth");
      }
      const goals = this.frames.some((frame) => frame.snapshot && frame.snapshot.goals.length);
      if (!goals) return;
      const item = put(list, "li");
      const icon = draw(item, "svg", { viewBox: "-60 -60 120 120", "aria-hidden": "true" });
      draw(icon, "rect", { x: -48, y: -48, width: 96, height: 96, class: "ring" });
      item.append("goal");
    }

    controls() {
      const bar = put(this.body, "div", { class: "replay-controls", role: "group", "aria-label": "Replay" });
      const button = (name, label, act) => {
        const node = put(bar, "button", { type: "button", "aria-label": label, title: label, class: `do-${name}` });
        const icon = draw(node, "svg", { viewBox: "0 0 24 24", "aria-hidden": "true" });
        draw(icon, "path", { d: ICONS[name] });
        node.addEventListener("click", act);
        return node;
      };
      button("first", "To the start", () => this.go(0));
      button("back", "One step back", () => this.go(this.time - 1));
      this.player = button("play", "Play", () => this.toggle());
      button("next", "One step on", () => this.go(this.time + 1));
      button("last", "To the end", () => this.go(this.frames.length - 1));
      this.slider = put(bar, "input", { type: "range", min: 0, max: this.frames.length - 1, step: 1, value: 0, "aria-label": "Step" });
      this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
      this.counter = put(bar, "output", { class: "replay-counter" });
      const speed = put(bar, "select", { class: "replay-speed", "aria-label": "Speed", title: "Speed" });
      for (const value of [0.5, 1, 2, 4]) put(speed, "option", { value }, `${value}×`);
      speed.value = String(this.speed);
      speed.addEventListener("change", () => {
        this.speed = Number(speed.value);
        if (this.timer) this.play();
      });
    }

    bars(parent) {
      const { episode } = this;
      const box = put(parent, "div", { class: "replay-models" });
      put(box, "h4", {}, "Posterior over models");
      const list = put(box, "ul");
      const rows = episode.models.map((name, k) => {
        const row = put(list, "li", { class: k === episode.truth ? "true" : "" });
        const label = put(row, "span", { class: "label" }, name);
        if (k === episode.truth) put(label, "em", {}, " true");
        const track = put(row, "span", { class: "track", "aria-hidden": "true" });
        return { row, bar: put(track, "span"), value: put(row, "span", { class: "value" }) };
      });
      const chart = this.chart(box);
      const entropy = put(box, "p", { class: "replay-entropy" });
      return { rows, chart, entropy };
    }

    // The posterior of every model over time, that of the true model on top.
    chart(parent) {
      const last = Math.max(this.frames.length - 1, 1);
      const node = draw(parent, "svg", { viewBox: "0 -4 300 68", class: "replay-chart", role: "img", preserveAspectRatio: "none", "aria-label": "Posterior of every model over time; the thick line is the true model" });
      for (const y of [0, 30, 60]) draw(node, "line", { x1: 0, x2: 300, y1: y, y2: y, class: "grid" });
      const order = this.episode.models.map((_, k) => k).filter((k) => k !== this.episode.truth);
      for (const k of [...order, this.episode.truth]) {
        const points = this.frames.map((frame, t) => `${((300 * t) / last).toFixed(1)},${(60 * (1 - frame.posterior[k])).toFixed(1)}`);
        draw(node, "polyline", { points: points.join(" "), class: k === this.episode.truth ? "line true" : "line" });
      }
      const cursor = draw(node, "line", { y1: -4, y2: 64, class: "cursor" });
      return (time) => {
        cursor.setAttribute("x1", (300 * time) / last);
        cursor.setAttribute("x2", (300 * time) / last);
      };
    }

    // ---------------------------------------------------------------- moving

    go(time) {
      this.pause();
      this.show(Math.min(Math.max(time, 0), this.frames.length - 1));
    }

    toggle() {
      if (this.timer) this.pause();
      else this.play();
    }

    play() {
      clearInterval(this.timer);
      if (this.time === this.frames.length - 1) this.show(0);
      this.words.setAttribute("aria-live", "off");
      this.timer = setInterval(() => {
        if (this.time < this.frames.length - 1) this.show(this.time + 1);
        if (this.time === this.frames.length - 1) this.pause();
      }, PAUSE / this.speed);
      this.face("pause", "Pause");
    }

    pause() {
      clearInterval(this.timer);
      this.timer = null;
      if (!this.player) return;
      this.words.setAttribute("aria-live", "polite");
      this.face("play", "Play");
    }

    face(icon, label) {
      this.player.querySelector("path").setAttribute("d", ICONS[icon]);
      this.player.setAttribute("aria-label", label);
      this.player.title = label;
    }

    key(event) {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const inside = event.target instanceof Element ? event.target : document.body;
      if (inside.closest("select, textarea, input:not([type=range])")) return;
      const last = this.frames.length - 1;
      const moves = { ArrowLeft: this.time - 1, ArrowRight: this.time + 1, Home: 0, End: last };
      if (event.key in moves) this.go(moves[event.key]);
      else if (event.key === " " && !inside.closest("button")) this.toggle();
      else return;
      event.preventDefault();
    }

    // ---------------------------------------------------------------- showing

    show(time) {
      this.time = time;
      this.section.dataset.time = time;
      const frame = this.frames[time], last = this.frames.length - 1;
      this.slider.value = time;
      this.slider.setAttribute("aria-valuetext", `step ${time} of ${last}`);
      this.counter.textContent = `${time} / ${last}`;
      // Not `disabled`: that would take the focus from a button pressed by key.
      for (const [name, end] of [["first", 0], ["back", 0], ["next", last], ["last", last]]) {
        this.body.querySelector(`.do-${name}`).setAttribute("aria-disabled", time === end);
      }
      this.showTruth(frame);
      if (this.mind) this.showMind(frame);
      this.showWords(frame);
      if (this.models) this.showModels(frame);
    }

    // The drawing of a model's stage in one of the two figures; made once.
    picture(figure, model) {
      const key = `${figure.title} ${model}`;
      if (!this.pictures[key]) this.pictures[key] = new Picture(this.episode.stages[model], figure.title);
      const picture = this.pictures[key];
      if (figure.drawing.firstChild !== picture.node) figure.drawing.replaceChildren(picture.node);
      figure.node.parentNode.classList.toggle("stacked", picture.wide);
      return picture;
    }

    // Where nobody is on the stage any more, the last places stay, dimmed.
    standing(time) {
      let at = time;
      while (at > 0 && !Object.keys(this.frames[at].snapshot.positions).length) at -= 1;
      return this.frames[at].snapshot;
    }

    showTruth(frame) {
      const { truth } = this;
      truth.model.textContent = this.episode.models[this.episode.truth];
      if (!frame.snapshot) {
        truth.drawing.replaceChildren(put(null, "p", { class: "replay-state" }, frame.state));
        return;
      }
      const gone = !Object.keys(frame.snapshot.positions).length;
      const picture = this.picture(truth, this.episode.truth);
      picture.show(gone ? this.standing(frame.time) : frame.snapshot, { over: gone });
      picture.node.setAttribute("aria-label", `${truth.title}: ${frame.state}`);
      truth.text.textContent = frame.state === "absorbing" ? "absorbing: the episode has ended" : frame.state;
    }

    showMind(frame) {
      const { mind } = this, { belief } = frame;
      if (!belief) return;
      const [name, chance] = belief.likely[0] || ["", 0];
      const model = this.episode.models[frame.leader];
      const many = this.episode.models.length > 1;
      mind.model.textContent = many ? `if the model is: ${model} (${percent(frame.posterior[frame.leader])})` : model;
      mind.text.textContent = `most likely: ${name} (${percent(chance)})`;
      if (belief.snapshot) {
        const picture = this.picture(mind, frame.leader);
        picture.show({ ...belief.snapshot, positions: {} }, { heat: belief.heat, ghosts: frame.snapshot });
        picture.node.setAttribute("aria-label", `${mind.title}, ${mind.model.textContent}, ${mind.text.textContent}`);
      } else {
        const list = put(null, "ul", { class: "replay-likely" });
        for (const [state, share] of belief.likely) {
          const row = put(list, "li");
          put(row, "span", { class: "fill" }).style.width = `${100 * share}%`;
          put(row, "span", { class: "name" }, state);
          put(row, "span", { class: "value" }, percent(share));
        }
        mind.drawing.replaceChildren(list);
      }
    }

    showWords(frame) {
      clear(this.words);
      const fact = (name, text, code = null) => {
        const row = put(this.words, "div");
        put(row, "dt", {}, name);
        const value = put(row, "dd", {}, text);
        if (code !== null && code.length < 24 && !text.includes(code)) put(value, "code", {}, code);
      };
      fact("Did", frame.did || "nothing yet: this is the start", frame.action);
      fact("Saw", frame.saw || "nothing", this.episode.sees === "observation" ? frame.observation : null);
      fact("Reward", frame.reward === null ? "none so far" : `${number(frame.reward)}; return so far ${number(frame.return)}`);
      if (frame.chances) {
        const order = frame.chances.map((share, action) => [share, this.episode.phrases[action]]).filter(([share]) => share > 0.005);
        order.sort((one, other) => other[0] - one[0]);
        fact("Next", order.map(([share, action]) => `${percent(share)} ${action}`).join(", "));
      } else {
        const over = this.episode.steps < this.episode.horizon;
        fact("Next", over ? "nothing: the episode has ended" : "nothing: the horizon is reached");
      }
    }

    showModels(frame) {
      this.models.rows.forEach(({ row, bar, value }, k) => {
        const share = frame.posterior[k];
        bar.style.width = `${100 * share}%`;
        value.textContent = percent(share);
        row.classList.toggle("leads", k === frame.leader);
      });
      this.models.chart(frame.time);
      const { entropy } = this.models;
      entropy.textContent = frame.entropy === null ? "" : `Entropy ${frame.entropy.toFixed(2)} (0: certain, 1: uniform)`;
    }
  }

  function start() {
    const replays = [...document.querySelectorAll("section.replay")].map((section) => new Replay(section));
    if (replays.length !== 1) return; // with one replay, keys work wherever the focus is
    document.addEventListener("keydown", (event) => {
      if (!replays[0].section.contains(event.target)) replays[0].key(event);
    });
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
