// An episode by hand: sends actions to the server of this page and shows what comes back.
(() => {
  "use strict";

  const game = document.getElementById("game");
  const at = (name) => document.getElementById(name);
  const percent = (share) => (share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(100 * share)} %`);
  const number = (value) => String(Math.round(100 * value) / 100).replace("-", "−");
  let current = null;

  function put(parent, name, text = null, className = "") {
    const node = document.createElement(name);
    if (text !== null) node.textContent = text;
    if (className) node.className = className;
    parent.append(node);
    return node;
  }

  async function send(path, fields) {
    at("message").textContent = "Working …";
    for (const button of document.querySelectorAll("#game button")) button.disabled = true;
    try {
      const answer = await fetch(path, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ ...fields, reveal: at("reveal").checked }),
      });
      const found = await answer.json();
      if (found.error) throw new Error(found.error);
      current = found;
      show(found);
    } catch (error) {
      at("message").textContent = error.message;
      at("again").disabled = false;
    }
  }

  function bars(list, rows) {
    list.replaceChildren();
    for (const [name, share, mark] of rows) {
      const item = put(list, "li", null, mark ? "true" : "");
      put(item, "span", mark ? `${name} (true)` : name, "label");
      const track = put(item, "span", null, "track");
      put(track, "span").style.width = `${100 * share}%`;
      put(item, "span", percent(share), "value");
    }
  }

  function show(found) {
    at("message").textContent = found.over
      ? `The episode has ended with a return of ${number(found.return)}.`
      : `Step ${found.time} of at most ${found.horizon}.`;
    const facts = at("facts");
    facts.replaceChildren();
    const lines = [["You did", found.did || "nothing yet"], ["You saw", found.saw]];
    if (found.reward !== null) lines.push(["Reward", number(found.reward)]);
    lines.push(["Return", number(found.return)]);
    for (const [name, text] of lines) {
      put(facts, "dt", name);
      put(facts, "dd", text);
    }
    const actions = at("actions");
    actions.replaceChildren();
    const best = Math.max(...found.advice);
    found.actions.forEach((name, action) => {
      const button = put(actions, "button", null, found.advice[action] === best ? "advised" : "");
      button.type = "button";
      button.disabled = found.over;
      put(button, "span", name);
      put(button, "small", `ATPO ${percent(found.advice[action])}`);
      button.addEventListener("click", () => send("/play/act", { game: found.game, action }));
    });
    const truth = found.truth ? found.truth.model : -1;
    bars(at("posterior"), found.models.map((name, k) => [name, found.posterior[k], k === truth]));
    bars(at("likely"), found.likely);
    at("truth").hidden = !found.truth;
    if (found.truth) at("truth").textContent = `${found.models[truth]}\n${found.truth.state}\n\n${found.truth.map}`;
    at("again").disabled = false;
  }

  let seed = Number(game.dataset.seed);
  const begin = () => send("/play/new", { library: game.dataset.library, seed });
  at("again").addEventListener("click", () => {
    seed += 1;
    begin();
  });
  at("reveal").addEventListener("change", () => {
    if (current) send("/play/act", { game: current.game, action: null });
  });
  begin();
})();
