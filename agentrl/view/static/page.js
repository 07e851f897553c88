// The page: what is shown, where its words come from, and which keys change it.

const POLL = 2000; // milliseconds between two looks at a live run
const find = (id) => document.getElementById(id);

const state = {
  story: JSON.parse(find('story').textContent),
  scene: 0,
  row: 0,
  side: 0,
  members: [],
  keptOnly: false,
  tokens: false,
  filter: '',
  follow: true,
};
const talks = new Map();

function scene() {
  return state.story.scenes[state.scene];
}

function shown() {
  const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
  return scene().rows.filter((row) => {
    const text = `${row.title} ${row.task} ${row.words.join(' ')} ${summary(row)}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function row() {
  return scene().rows[state.row];
}

// Conversations of a task: in this file, or from the server of a live run.
async function talk(of) {
  if (!talks.has(of.id)) {
    const block = find(`talk-${of.id}`);
    const found = block ? JSON.parse(block.textContent) : await ask(`talk?scene=${scene().key}&row=${of.id.slice(scene().key.length + 1)}`);
    if (!state.story.live) talks.set(of.id, found);
    return found;
  }
  return talks.get(of.id);
}

async function ask(what) {
  const answer = await fetch(what, { cache: 'no-cache' });
  if (!answer.ok) throw new Error(`${what}: ${answer.status}`);
  return answer.json();
}

async function load() {
  if (state.story.live && !scene().rows.length) scene().rows = await ask(`rows?scene=${scene().key}`);
}

// Drawing.

function names() {
  const heading = find('names');
  heading.replaceChildren();
  state.story.sides.forEach((side, at) => {
    if (at) heading.append(make('span', { class: 'and' }, ' and '));
    heading.append(make('bdi', {}, plain(side.name)));
  });
  const one = state.story.sides.length === 1;
  find('about').replaceChildren(one ? factsOf(state.story.sides[0]) : 'side by side');
  const options = state.story.scenes.map((one, at) => make('option', { value: at }, plain(one.title)));
  find('scene').replaceChildren(...options);
}

// What a run was, on one line.
function factsOf(side) {
  const parts = side.facts.filter(([name]) => name !== 'status');
  return plain(parts.map(([name, value]) => (name === 'kept' ? `keeps ${value}` : value)).join(' · '));
}

let listed = []; // what the list was made of: thousands of tasks are not drawn anew for a key

function tasks() {
  const list = find('tasks');
  const now = [scene().rows, state.filter];
  if (now.some((part, at) => part !== listed[at])) {
    listed = now;
    list.replaceChildren(...shown().map(item));
    if (!list.children.length) list.append(make('li', { class: 'none' }, 'No task holds these words.'));
    find('summary').textContent = about(scene());
    elsewhere();
  }
  list.querySelector('[aria-current]')?.removeAttribute('aria-current');
  const current = row() && list.querySelector(`[data-id="${CSS.escape(row().id)}"]`);
  current?.setAttribute('aria-current', 'true');
}

function item(one) {
  const title = make('span', { class: 'title', dir: 'auto' });
  fill(title, one.title);
  const button = make('button', { type: 'button', 'data-id': one.id }, title, make('span', { class: 'sum' }, summary(one)));
  button.addEventListener('click', () => open({ row: scene().rows.indexOf(one) }));
  return make('li', {}, button);
}

function summary(one) {
  const means = one.sides.map((side) => (side ? short(side.mean) : '–'));
  if (one.sides.length > 1) return `reward ${means.join(' → ')}${changed(one.sides)}`;
  const side = one.sides[0];
  const kept = side.members.filter((m) => m.kept).length;
  if (side.spread_all == null) return `reward ${means[0]} · ${side.members.length} ${side.members.length === 1 ? 'attempt' : 'attempts'}`;
  if (side.flat) return `reward ${means[0]} · flat, no update`;
  return `reward ${means[0]} · ${kept ? `kept ${kept} of ${side.members.length}` : 'none kept'}`;
}

// What became of a task from the first side to the second, as a word to look for.
function changed([before, after]) {
  if (before?.mean == null || after?.mean == null || before.mean === after.mean) return '';
  return before.mean < after.mean ? ' · better' : ' · worse';
}

function about(one) {
  const names = one.sides.map((side, at) => (one.sides.length > 1 ? `${plain(state.story.sides[at].name)}: ` : ''));
  const told = one.sides.map((side, at) => {
    if (!side) return `${names[at]}no such step`;
    const parts = [`${names[at]}${short(side.tasks)} tasks`, `mean reward ${short(side.reward)}`];
    if (side.kept == null) return parts.join(' · ');
    const flat = side.flat ? ` · ${side.flat} flat` : '';
    return `${parts.join(' · ')}\nkept ${short(side.kept)} of ${short(side.of)}${flat}`;
  });
  return told.join('\n');
}

function elsewhere() {
  const box = find('elsewhere');
  box.replaceChildren();
  const pages = scene().pages.filter((page) => page !== state.story.page);
  if (!pages.length || state.story.live) return;
  box.append('More tasks of this step: ');
  pages.forEach((page) => box.append(make('a', { href: `${state.story.pages[page]}#s=${scene().key}` }, `page ${page + 1}`), ' '));
}

let drawing = 0;

function draw() {
  return redraw().catch((error) => {
    if (!state.story.live) throw error;
    find('live').textContent = 'not reached';
  });
}

async function redraw() {
  const mine = ++drawing;
  await load();
  if (mine !== drawing) return;
  find('scene').value = String(state.scene);
  find('earlier').disabled = state.scene === 0;
  find('later').disabled = state.scene === state.story.scenes.length - 1;
  state.row = Math.min(state.row, Math.max(0, scene().rows.length - 1));
  tasks();
  const now = row();
  if (!now) return;
  const said = await talk(now);
  if (mine !== drawing) return;
  heading(now);
  const sides = now.sides.map((group, at) => side(now, group, said[at], at));
  find('sides').className = sides.length > 1 ? 'two' : 'one';
  find('sides').replaceChildren(...sides);
  document.querySelector('#tasks [aria-current]')?.scrollIntoView({ block: 'nearest' });
  remember();
}

function heading(now) {
  const title = find('task');
  title.replaceChildren();
  title.dir = 'auto';
  fill(title, now.title);
  find('words').replaceChildren(...now.words.map((word) => make('span', { class: 'word' }, plain(word))));
}

function side(now, group, said, at) {
  const story = state.story.sides[at];
  const box = make('section', { class: at === state.side ? 'side active' : 'side', 'aria-label': plain(story.name) });
  if (now.sides.length > 1) {
    const name = scene().sides[at]?.name ?? '';
    box.append(make('h3', { class: 'who' }, make('bdi', {}, plain(story.name)), make('small', {}, ` ${plain(name)}`)));
    box.append(make('p', { class: 'facts-line', title: factsOf(story) }, factsOf(story)));
  }
  if (!group) {
    box.append(make('p', { class: 'absent' }, 'This task was not played here.'));
    return box;
  }
  const member = group.members[chosen(at)];
  const column = make('div', { class: 'column' });
  const choose = (to) => open({ side: at, member: to });
  if (group.members.length > 1) column.append(make('p', { class: 'legend' }, legend(group)), strip(group, chosen(at), state.keptOnly, choose));
  column.append(verdict(member, group), turns(said[chosen(at)], member, state.tokens, () => open({ tokens: !state.tokens })), ground(member, group));
  box.append(column, facts(now, scene().sides[at], member, state.story, scene(), at, goTo));
  return box;
}

// The member of a side; where none was chosen, the best that was kept.
function chosen(at) {
  const group = row().sides[at];
  if (state.members[at] != null && state.members[at] < group.members.length) return state.members[at];
  for (let i = group.members.length - 1; i >= 0; i--) if (group.members[i].kept) return i;
  return Math.max(0, group.members.findLastIndex((m) => m.reward != null && m.status !== 'error'));
}

// Moving.

function open(change) {
  const focused = document.activeElement;
  const within = focused?.closest?.('.strip') ? '.side.active .tile[aria-current]' : focused?.closest?.('#tasks') ? '#tasks [aria-current]' : null;
  if (change.scene != null && change.scene !== state.scene) Object.assign(state, { scene: change.scene, row: 0, members: [] });
  if (change.row != null && change.row !== state.row) Object.assign(state, { row: change.row, members: [] });
  if (change.side != null) state.side = change.side;
  if (change.member != null) state.members[state.side] = change.member;
  for (const name of ['keptOnly', 'tokens']) if (change[name] != null) state[name] = change[name];
  return draw().then(() => {
    if (within) document.querySelector(within)?.focus({ preventScroll: true });
  });
}

function goTo(key, ref) {
  const at = state.story.scenes.findIndex((one) => one.key === key);
  if (at < 0) return;
  step(at, ref);
}

function step(at, ref) {
  const target = state.story.scenes[at];
  if (!state.story.live && !target.pages.includes(state.story.page)) {
    location.href = `${state.story.pages[target.pages[0]]}#s=${target.key}${ref ? `&t=${encodeURIComponent(ref)}` : ''}`;
    return;
  }
  const same = ref ?? row()?.ref;
  if (at !== state.scene) Object.assign(state, { scene: at, row: 0, members: [] });
  load().then(() => {
    open({ row: rowOf(same) });
  });
}

// A task by its name; else the first that something was kept of.
function rowOf(ref) {
  const found = scene().rows.findIndex((one) => one.ref === ref);
  if (found >= 0) return found;
  return Math.max(0, scene().rows.findIndex((one) => one.sides.some((side) => side?.members.some((m) => m.kept))));
}

function member(by) {
  const group = row()?.sides[state.side];
  if (!group) return;
  let at = chosen(state.side) + by;
  while (state.keptOnly && group.members[at] && !group.members[at].kept) at += by;
  if (!group.members[at]) return;
  open({ member: at });
  announce(told(group.members[at], group.spread_all != null));
}

function task(by) {
  const list = shown();
  const at = list.indexOf(row()) + by;
  if (list[at]) open({ row: scene().rows.indexOf(list[at]) });
  if (list[at]) announce(plain(list[at].title));
}

function announce(text) {
  find('said').textContent = text;
}

async function copy() {
  const now = row();
  const said = await talk(now);
  const at = chosen(state.side);
  const text = JSON.stringify({ task: now.task, step: scene().key, ...now.sides[state.side].members[at], cards: said[state.side][at] }, null, 2);
  try {
    await navigator.clipboard.writeText(text);
    announce('Copied as JSON.');
  } catch {
    announce('The browser does not let this page copy.');
  }
}

const KEYS = {
  ArrowLeft: () => member(-1),
  ArrowRight: () => member(1),
  ArrowUp: () => task(-1),
  ArrowDown: () => task(1),
  '[': () => state.scene > 0 && step(state.scene - 1),
  ']': () => state.scene + 1 < state.story.scenes.length && step(state.scene + 1),
  k: () => open({ keptOnly: !state.keptOnly }).then(() => announce(state.keptOnly ? 'Only those that were kept.' : 'All trajectories.')),
  l: () => open({ tokens: !state.tokens }).then(() => announce(state.tokens ? 'Log-probs are shown.' : 'Words are shown.')),
  s: () => state.story.sides.length > 1 && open({ side: (state.side + 1) % state.story.sides.length }),
  '/': () => find('filter').focus(),
  c: copy,
  '?': () => find('keys').showModal(),
};

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || find('keys').open) return;
  if (event.target.closest('input, select, textarea')) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

// The address keeps the place.

let written = '';

function remember() {
  const place = new URLSearchParams({ s: scene().key, t: row().ref, i: state.members.map((at) => at ?? '').join(',') });
  written = `#${place}`;
  history.replaceState(null, '', written);
}

function recall() {
  const place = new URLSearchParams(location.hash.slice(1));
  const at = state.story.scenes.findIndex((one) => one.key === place.get('s'));
  const start = here(at >= 0 ? at : state.story.first);
  Object.assign(state, { scene: start, row: 0, members: [] });
  load().then(() => {
    state.row = rowOf(place.get('t'));
    if (at >= 0 && place.get('i')) state.members = place.get('i').split(',').map((text) => (text === '' ? null : Number(text)));
    draw();
  });
}

// A step that this page holds.
function here(at) {
  const { scenes, page, live } = state.story;
  if (live || scenes[at].pages.includes(page)) return at;
  return scenes.findLastIndex((one) => one.pages.includes(page));
}

const THEMES = ['system', 'light', 'dark'];

function theme() {
  const button = find('theme');
  const next = THEMES[(THEMES.indexOf(button.dataset.theme ?? 'system') + 1) % THEMES.length];
  button.dataset.theme = next;
  button.textContent = `Theme: ${next}`;
  document.documentElement.style.colorScheme = next === 'system' ? '' : next;
}

// A live run: look again, and go to the newest step where that is wanted.
async function follow() {
  const last = () => state.story.scenes.length - 1;
  try {
    const fresh = await ask('story');
    const before = { key: scene().key, last: state.story.scenes[last()].key, text: JSON.stringify(scene().sides) };
    const known = new Map(state.story.scenes.map((one) => [one.key, one]));
    for (const one of fresh.scenes) {
      const old = known.get(one.key);
      if (old && JSON.stringify(old.sides) === JSON.stringify(one.sides)) one.rows = old.rows;
    }
    state.story = fresh;
    state.scene = Math.max(0, fresh.scenes.findIndex((one) => one.key === before.key));
    names();
    const changed = JSON.stringify(scene().sides) !== before.text;
    if (state.follow && fresh.scenes[last()].key !== before.last) open({ scene: fresh.first });
    else if (changed) draw();
    else find('scene').value = String(state.scene);
    find('live').textContent = fresh.sides.map((one) => one.status).filter(Boolean).join(', ');
  } catch {
    find('live').textContent = 'not reached';
  }
  setTimeout(follow, POLL);
}

function start() {
  names();
  const top = document.querySelector('.top');
  new ResizeObserver(() => document.documentElement.style.setProperty('--top', `${top.offsetHeight}px`)).observe(top);
  find('scene').addEventListener('change', (event) => step(Number(event.target.value)));
  find('earlier').addEventListener('click', KEYS['[']);
  find('later').addEventListener('click', KEYS[']']);
  find('filter').addEventListener('input', (event) => {
    state.filter = event.target.value;
    tasks();
  });
  find('theme').addEventListener('click', theme);
  find('help').addEventListener('click', KEYS['?']);
  document.addEventListener('keydown', key);
  addEventListener('hashchange', () => location.hash !== written && recall());
  if (state.story.live) {
    find('live').hidden = find('follow').hidden = false;
    find('follow').addEventListener('click', (event) => {
      state.follow = !state.follow;
      event.target.setAttribute('aria-pressed', String(state.follow));
    });
    setTimeout(follow, POLL);
  }
  recall();
}

start();
