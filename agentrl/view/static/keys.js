// Keys, the address, the theme, and a run that goes on.

const POLL = 2000; // milliseconds between two looks at a live run

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
