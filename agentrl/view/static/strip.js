// The strip: a task's trajectories by reward, the kept ones ringed, each over what it costs.

const NUMBERED = 48; // so many tiles have room for their numbers

function strip(group, current, keptOnly, choose) {
  const members = group.members;
  const rewards = members.map((m) => m.reward).filter((r) => r != null);
  const low = Math.min(0, ...rewards);
  const high = Math.max(...rewards, low + 1e-9);
  const most = Math.max(1, ...members.map((m) => m.tokens));
  const kept = group.spread_all != null;
  const tiles = make('div', {
    class: members.length > NUMBERED ? 'strip small' : 'strip',
    role: 'group',
    'aria-label': `${members.length} trajectories by reward`,
  });
  members.forEach((member, at) => {
    if (keptOnly && !member.kept) return;
    tiles.append(tile(member, at, at === current, { low, high, most, mean: group.mean, kept }, choose));
  });
  return tiles;
}

function tile(member, at, isCurrent, scale, choose) {
  const { low, high, most, mean, kept } = scale;
  const scored = member.reward != null && member.status !== 'error';
  const side = scored ? where(member, mean) : 'none';
  const bar = make('span', { class: `bar ${side}` });
  bar.style.height = scored ? `${Math.max(6, (100 * (member.reward - low)) / (high - low))}%` : '6%';
  const cost = make('span', { class: 'cost' });
  cost.style.width = `${Math.max(8, (100 * member.tokens) / most)}%`;
  const button = make(
    'button',
    {
      type: 'button',
      class: `tile${member.kept ? ' kept' : kept ? ' left' : ''}`,
      'aria-current': isCurrent ? 'true' : null,
      'aria-label': told(member, kept),
      title: told(member, kept),
      tabindex: isCurrent ? '0' : '-1',
      'data-at': at,
    },
    make('span', { class: 'plot' }, bar),
    make('span', { class: 'number' }, scored ? short(member.reward, 2) : '×'),
    make('span', { class: 'costs' }, cost),
  );
  button.addEventListener('click', () => choose(at));
  return button;
}

// Above or below its like; where all are alike, right or wrong, if that is known.
function where(member, mean) {
  const away = member.reward - mean;
  if (Math.abs(away) > 1e-9 * Math.max(1, Math.abs(mean))) return away > 0 ? 'above' : 'below';
  return member.correct == null ? 'equal' : member.correct ? 'above' : 'below';
}

function told(member, kept) {
  const reward = member.reward == null || member.status === 'error' ? 'not scored' : `reward ${short(member.reward)}`;
  const choice = !kept ? '' : member.kept ? ', kept' : ', not kept';
  return `no. ${member.member}: ${reward}${choice}, ${short(member.tokens)} tokens`;
}

// What the strip shows, in a sentence.
function legend(group) {
  const members = group.members;
  const kept = members.filter((m) => m.kept).length;
  const one = members.length === 1;
  const parts = [one ? 'One trajectory.' : `${members.length} trajectories, lowest reward first. Height is the reward, the line below it the tokens.`];
  if (group.spread_all == null) return parts.join(' ');
  if (kept) parts.push(`A ring marks the ${kept} that ${kept === 1 ? 'was' : 'were'} trained on.`);
  else parts.push(group.flat ? 'All rewards are alike: none was trained on.' : 'None was trained on.');
  return parts.join(' ');
}
