// What every page makes its elements with.
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
function make(tag, text, more) {
	const e = document.createElement(tag);
	if (text !== undefined)
		e.textContent = text;
	return Object.assign(e, more);
}
function draw(parent, tag, attributes, text) {
	const e = document.createElementNS(SVG, tag);
	for (const k in attributes)
		e.setAttribute(k, attributes[k]);
	if (text !== undefined)
		e.textContent = text;
	parent.appendChild(e);
	return e;
}
