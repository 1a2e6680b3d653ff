// Keeps the list and a trajectory up to date, and loads tokens when they are asked for.
"use strict";

async function refresh(list) {
  if (document.hidden || list.contains(document.activeElement)) return;
  const url = new URL(location.href);
  url.searchParams.set("part", "");
  const answer = await fetch(url);
  if (answer.ok) list.innerHTML = await answer.text();
}

async function follow(entries) {
  const first = Math.max(entries.children.length - 1, 0);
  const answer = await fetch(`${entries.dataset.follow}?from=${first}&seen=${entries.dataset.seen}`);
  if (answer.headers.get("X-Over") === "1") {
    location.reload();
    return;
  }
  if (answer.status === 200) {
    const atEnd = innerHeight + scrollY >= document.body.scrollHeight - 40;
    const news = await answer.text();
    entries.querySelectorAll(`:scope > li:nth-child(n+${first + 1})`).forEach((old) => old.remove());
    entries.insertAdjacentHTML("beforeend", news);
    entries.dataset.seen = answer.headers.get("X-Seen");
    if (atEnd) scrollTo(0, document.body.scrollHeight);
  }
  setTimeout(() => again(entries), 1000);
}

function again(entries) {
  follow(entries).catch(() => setTimeout(() => again(entries), 5000));
}

async function load(details) {
  if (!details.open || !details.dataset.load) return;
  const url = details.dataset.load;
  delete details.dataset.load;
  const place = details.querySelector("div");
  try {
    const answer = await fetch(url);
    if (answer.ok) place.innerHTML = await answer.text();
    else place.textContent = `not loaded: ${answer.status}`;
  } catch (error) {
    place.textContent = `not loaded: ${error.message}`;
    details.dataset.load = url;
  }
}

const list = document.querySelector("[data-refresh]");
if (list) setInterval(() => refresh(list).catch(() => {}), 1000 * list.dataset.refresh);
const entries = document.querySelector("[data-follow]");
if (entries) setTimeout(() => again(entries), 1000);
document.addEventListener("toggle", (event) => load(event.target), true);
