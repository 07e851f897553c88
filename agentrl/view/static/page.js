// One task, drawn; and the ways from it to another.

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
