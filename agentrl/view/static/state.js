// What is shown, and where its words come from: this file, or the server of a live run.

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
