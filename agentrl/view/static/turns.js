// The conversation as cards: what the policy wrote stands on a ground of its own.

const LEVELS = [0.9, 0.6, 0.3, 0.1]; // chances below which a sampled token is marked more strongly

function turns(cards, member, showTokens, toggle) {
  const list = make('ol', { class: 'turns' });
  for (const card of cards) list.append(make('li', {}, cardOf(card, member, showTokens, toggle)));
  return list;
}

function cardOf(card, member, showTokens, toggle) {
  const failed = card.failed;
  const state = failed ? ' failed' : '';
  const ground = card.mine ? (member.kept ? ' trained' : ' written') : '';
  const article = make('article', { class: `card ${card.kind}${state}${ground}` });
  const head = make('header', {}, title(card, member));
  const facts = make('span', { class: 'facts' });
  if (card.tokens) {
    facts.append(`${card.tokens.text.length} tokens · mean log-prob ${short(mean(card.tokens.logprobs), 2)}`);
    const button = make('button', { type: 'button', class: 'quiet', 'aria-pressed': String(showTokens) }, 'log-probs');
    button.addEventListener('click', toggle);
    facts.append(button);
  } else if (!card.mine) {
    facts.append('masked');
  }
  head.append(facts);
  article.append(head);
  if (card.tokens && showTokens) article.append(...tokens(card.tokens));
  else article.append(...body(card));
  return article;
}

function title(card, member) {
  const heading = make('h3');
  fill(heading, card.title);
  if (card.kind === 'policy' && member.version != null) heading.append(make('small', {}, ` policy v${member.version}`));
  if (card.failed) heading.append(make('small', { class: 'bad' }, ` ${card.failed}`));
  else if (card.kind === 'tool') heading.append(make('small', {}, ' returned'));
  return heading;
}

function body(card) {
  const parts = [];
  if (card.thinking) {
    const details = make('details', {}, make('summary', {}, 'thinking'));
    details.append(say(make('div', { class: 'said', dir: 'auto' }), card.thinking));
    parts.push(details);
  }
  if (card.text || !(card.calls || card.thinking)) {
    const mono = card.kind === 'tool' ? ' mono' : '';
    const words = make('div', { class: `said${mono}`, dir: 'auto' });
    parts.push(card.text ? say(words, card.text) : make('div', { class: 'said empty' }, 'nothing'));
  }
  for (const call of card.calls || []) parts.push(callOf(call));
  return parts;
}

function callOf(call) {
  const box = make('div', { class: 'call' });
  const name = make('span', { class: 'call-name' });
  fill(name, call.name);
  box.append(make('span', { class: 'label' }, 'calls '), name);
  const list = make('dl');
  for (const [key, value] of call.args) {
    const term = make('dt');
    fill(term, key || 'arguments');
    list.append(term, say(make('dd', { class: 'mono', dir: 'auto' }), value));
  }
  if (call.args.length) box.append(list);
  return box;
}

function tokens(found) {
  const words = make('div', { class: 'said mono tokens', dir: 'auto' });
  const told = make('p', { class: 'told' }, 'Point at a token. The warmer its ground, the less likely it was.');
  found.text.forEach((text, at) => {
    const p = found.logprobs[at];
    const level = p == null ? 0 : LEVELS.filter((least) => Math.exp(p) < least).length;
    const span = make('span', { class: `t p${level}`, title: chance(text, p) });
    fill(span, text);
    span.addEventListener('pointerenter', () => told.replaceChildren(chance(text, p)));
    words.append(span);
  });
  return [words, told, unlikely(found)];
}

// The same for those who do not point: the least likely tokens, by name.
function unlikely(found) {
  const ranked = found.text.map((text, at) => [text, found.logprobs[at], at]).filter((row) => row[1] != null);
  ranked.sort((a, b) => a[1] - b[1]);
  const list = make('ul', { class: 'unlikely', 'aria-label': 'Least likely tokens' });
  for (const [text, p, at] of ranked.slice(0, 4).filter((row) => row[1] < -0.0005)) list.append(make('li', {}, `${at + 1}. ${chance(text, p)}`));
  if (!list.children.length) list.append(make('li', {}, 'Each was all but certain.'));
  return list;
}

function chance(text, p) {
  const shown = `“${plain(text).replaceAll('\n', '↵')}”`;
  return p == null ? `${shown}: no log-prob` : `${shown} log-prob ${short(p, 3)}, chance ${(100 * Math.exp(p)).toFixed(1)}%`;
}

function mean(values) {
  const known = values.filter((value) => value != null);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
}

// What the ground means here.
function ground(member, group) {
  const mark = make('span', { class: member.kept ? 'swatch trained' : 'swatch written' }, 'Marked text');
  const rest = group.spread_all == null
    ? ' was written by the policy. Nothing of a measurement is trained on.'
    : member.kept
      ? ' was written by the policy and is trained on. Everything else is masked.'
      : ' was written by the policy. This trajectory was not kept, so nothing of it is trained on.';
  return make('p', { class: 'ground' }, mark, rest);
}
