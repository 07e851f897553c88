'use strict';
// Text of a run as text: everything here ends in a text node, and what cannot be seen is named.

const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;
const LONG = 6000; // characters of a text that are shown at once
const HEAD = 4000; // those of a longer one

function isHidden(c) {
  return c !== '\n' && c !== '\t' && HIDDEN.test(c);
}

// The name of a character that nobody sees, or that would turn the text around.
function named(c) {
  return `U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
}

// The text with those named, for attributes and options.
function plain(text) {
  return Array.from(text, (c) => (isHidden(c) ? `[${named(c)}]` : c)).join('');
}

// Put a text into an element; long ones fold.
function say(element, text) {
  const whole = text.replaceAll('\r\n', '\n');
  if (whole.length <= LONG) {
    fill(element, whole);
    return element;
  }
  fill(element, whole.slice(0, HEAD));
  const count = whole.length.toLocaleString('en');
  const more = make('button', { type: 'button', class: 'more' }, `Show all ${count} characters`);
  more.addEventListener('click', () => {
    element.replaceChildren();
    fill(element, whole);
  });
  element.append(make('span', {}, '…'), more);
  return element;
}

function fill(element, text) {
  if (!Array.from(text).some(isHidden)) {
    element.append(text);
    return;
  }
  let run = '';
  for (const c of text) {
    if (!isHidden(c)) {
      run += c;
      continue;
    }
    element.append(run, make('span', { class: 'hidden-mark', title: 'a character that is not seen' }, named(c)));
    run = '';
  }
  element.append(run);
}

// An element; children are elements or text, never markup.
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(key, '');
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child != null && child !== ''));
  return element;
}

function drawn(name, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// A number as short as it can be told: 0.5, −1, 12.3k.
function short(value, digits = 3) {
  if (value == null) return '–';
  if (value === 0) return '0'; // of both signs
  const size = Math.abs(value);
  if (size >= 100000) return `${(value / 1000).toFixed(0)}k`.replace('-', '−');
  if (Number.isInteger(value)) return value.toLocaleString('en').replace('-', '−');
  const text = size !== 0 && size < 0.00001 ? value.toExponential(1) : String(Number(value.toPrecision(digits)));
  return text.replace('-', '−');
}

function signed(value) {
  if (value == null) return '–';
  return value > 0 ? `+${short(value)}` : short(value);
}
