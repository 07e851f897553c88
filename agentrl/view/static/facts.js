// Why, in a sentence and in numbers; and the tables beside a conversation.

function verdict(member, group) {
  const why = member.why;
  if (!why) return outcome(member);
  const box = make('section', { class: `verdict ${member.kept ? 'yes' : 'no'}`, 'aria-label': 'Why' });
  const [head, ...rest] = why.said.split(/(?<=^(?:Kept|Not kept|Left out))/);
  const said = make('p', {}, make('strong', {}, head));
  fill(said, rest.join(''));
  box.append(said);
  if (why.value == null) return box;
  const figures = make('dl', { class: 'figures' });
  const pair = !group.members.some((one) => one.kept);
  figure(figures, pair ? 'the pair adds to Q' : 'adds to Q', short(why.value), 'Q: the sum of squared deviations of the kept rewards');
  if (why.cost) figure(figures, pair ? 'its tokens cost' : `${short(member.tokens)} tokens cost`, short(why.cost), 'At the price that a token has in this step');
  else figure(figures, 'tokens, no budget binds', short(member.tokens), 'Where no budget binds, tokens have no price');
  const rival = why.rival == null ? '' : ` ${pair ? 'with' : 'against'} no. ${why.rival}`;
  figure(figures, `margin${rival}`, why.margin == null ? '–' : signed(why.margin), 'What the best other decision would change');
  box.append(figures);
  return box;
}

// Of a measurement: nothing was chosen, but it came to something.
function outcome(member) {
  const scored = member.reward != null && member.status !== 'error';
  const head = !scored ? 'Not scored' : member.correct == null ? `Reward ${short(member.reward)}` : member.correct ? 'Correct' : 'Not correct';
  const said = make('p', {}, make('strong', {}, head));
  const reward = scored && member.correct != null ? `reward ${short(member.reward)}, ` : '';
  fill(said, `: ${reward}${short(member.turns)} ${member.turns === 1 ? 'turn' : 'turns'}, ${member.stop}.`);
  if (member.problem) fill(said, ` ${member.problem}`);
  return make('section', { class: `verdict ${member.correct ? 'yes' : 'no'}`, 'aria-label': 'Outcome' }, said);
}

function figure(list, name, value, title) {
  list.append(make('div', { title }, make('dt', {}, name), make('dd', {}, value)));
}

function facts(row, side, member, story, scene, at, go) {
  const aside = make('aside', { 'aria-label': 'Facts' });
  aside.append(table('This trajectory', trajectory(member)));
  const group = row.sides[at];
  if (group.spread_all != null) aside.append(table('Selection of this task', selection(group)), table('Selection of the step', wholeStep(side)));
  if (member.parts) aside.append(table('Reward parts', member.parts.map(([name, value]) => [name, short(value)])));
  if (member.metrics) aside.append(table('Numbers of its tools', member.metrics.map(([name, value]) => [name, short(value)])));
  if (group.trail.length > 1) aside.append(trail(group.trail, scene, story, row, go));
  aside.append(table('Recorded as', [['task', row.task], ['no.', String(member.member)]]));
  return aside;
}

function table(title, rows) {
  const list = make('dl');
  for (const [name, value] of rows) {
    if (value == null || value === '') continue;
    const said = make('dd');
    fill(said, String(value));
    const term = make('dt');
    fill(term, name);
    list.append(make('div', { class: String(value).length > 24 ? 'wide' : null }, term, said));
  }
  return make('section', {}, make('h3', {}, title), list);
}

function trajectory(member) {
  const failed = member.failed ? ` (${member.failed} failed)` : '';
  return [
    ['reward', member.reward == null ? 'not scored' : short(member.reward)],
    ['correct', member.correct == null ? null : member.correct ? 'yes' : 'no'],
    ['advantage', member.advantage == null ? null : signed(member.advantage)],
    ['weight', member.weight == null || Math.abs(member.weight - 1) < 1e-6 ? null : short(member.weight)],
    ['turns', short(member.turns)],
    ['tool calls', `${short(member.calls)}${failed}`],
    ['tokens', `${short(member.tokens)}, ${short(member.trained)} sampled`],
    ['policy', member.version == null ? null : `version ${member.version}`],
    ['ended', member.stop],
    ['problem', member.problem],
  ];
}

function selection(group) {
  const kept = group.members.filter((m) => m.kept);
  const sum = (members) => members.reduce((total, m) => total + m.tokens, 0);
  return [
    ['kept', `${kept.length} of ${group.members.length}`],
    ['spread, all', short(group.spread_all)],
    ['spread, kept', kept.length ? short(group.spread_kept) : null],
    ['tokens kept', `${short(sum(kept))} of ${short(sum(group.members))}`],
    ['note', group.note],
  ];
}

function wholeStep(side) {
  return [
    ['rule', side.rule],
    ['kept', `${short(side.kept)} of ${short(side.of)}`],
    ['spread', side.spread_all == null ? null : `${short(side.spread_all)} → ${short(side.spread_kept)}`],
    ['tokens', `${short(side.tokens_kept)} of ${short(side.tokens_all)}`],
    ['budget', side.budget == null ? 'none' : `${short(side.budget)} tokens`],
    ['price of a token', side.price ? short(side.price) : null],
    ['below the bound', side.gap ? `${(100 * side.gap).toFixed(1)}%` : null],
    ['found by', side.method],
    ['Q', side.q == null ? null : short(side.q)],
    ['best other rule', side.other && side.q ? `${side.other[0]}, Q ${short(side.other[1])}` : null],
    ['made again', side.same === false ? 'other rows than the run kept' : null],
    ['not made again', side.problem],
  ];
}

// The same task over steps: a line, and a button for each step.
function trail(points, scene, story, row, go) {
  const values = points.map(([, value]) => value);
  const low = Math.min(0, ...values);
  const high = Math.max(1, ...values);
  const x = (at) => 20 + (174 * at) / Math.max(1, points.length - 1);
  const y = (value) => 48 - (40 * (value - low)) / (high - low);
  const said = points.map(([key, value]) => `${titleOf(story, key)}: ${short(value)}`).join(', ');
  const svg = drawn('svg', { viewBox: '0 0 200 56', role: 'img', 'aria-label': `Mean reward of this task. ${said}` });
  for (const value of [low, high]) {
    svg.append(drawn('line', { x1: 20, x2: 194, y1: y(value), y2: y(value), class: 'edge' }));
    svg.append(drawn('text', { x: 0, y: y(value) + 3 }, short(value, 2)));
  }
  svg.append(drawn('polyline', { points: points.map(([, v], at) => `${x(at)},${y(v)}`).join(' '), class: 'line' }));
  points.forEach(([key, value], at) => {
    svg.append(drawn('circle', { cx: x(at), cy: y(value), r: key === scene.key ? 4 : 2.5, class: key === scene.key ? 'here' : 'dot' }));
  });
  const list = make('ol', { class: 'trail' });
  for (const [key, value] of nearby(points, scene.key)) {
    const button = make('button', { type: 'button', class: 'quiet', 'aria-current': key === scene.key ? 'step' : null }, titleOf(story, key), make('span', {}, short(value)));
    button.addEventListener('click', () => go(key, row.ref));
    list.append(make('li', {}, button));
  }
  return make('section', {}, make('h3', {}, 'This task over steps'), svg, list);
}

function nearby(points, key) {
  const at = Math.max(0, points.findIndex((point) => point[0] === key));
  const start = Math.max(0, Math.min(at - 3, points.length - 8));
  return points.slice(start, start + 8);
}

function titleOf(story, key) {
  const found = story.scenes.find((scene) => scene.key === key);
  return found ? found.title : key;
}
