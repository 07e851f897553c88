// The top line and the list of tasks.

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
