import { dirname, join, resolve } from 'node:path'
import { addressOf, read, root } from './repository.js'

const index = 'docs/README.md'
const decisions = 'docs/internals/adr/README.md'

/** Returns the file in the repository that a link in a page refers to. */
const target = (page, href) => join(dirname(page), href)

/** Returns the address on the site of a link in a page. */
const address = (page, href) => (href.includes('://') ? href : addressOf(resolve(root, target(page, href))))

/** Starts a label with a capital, unless its first word is a name such as systemd. */
function label(text, href) {
	const title = href.endsWith('.md') ? read(target(index, href)).match(/^# (.*)/m)[1] : text
	const isName = title.replace(/^Migrate from /, '').startsWith(text.split(' ')[0])
	return isName ? text : text[0].toUpperCase() + text.slice(1)
}

/** Returns the links in the tables below a heading. */
const links = (section) =>
	[...section.matchAll(/^\|.*/gm)]
		.flatMap(([row]) => [...row.matchAll(/\[([^\]]+)\]\(([^)]+)\)/g)])
		.map(([, text, href]) => ({ text: label(text, href), link: address(index, href) }))

const decisionItems = [...read(decisions).matchAll(/^\| \[(\d+)\]\((.+?)\) \| (.+?) \|/gm)].map(([, number, href, title]) => ({
	text: `${number}. ${title}`,
	link: address(decisions, href),
}))

/** The sections of docs/README.md, in its order. The design decisions have an entry each. */
export const sidebar = read(index)
	.split(/^## /m)
	.slice(1)
	.map((section) => ({ text: section.split('\n')[0], collapsed: true, items: links(section) }))
for (const { items } of sidebar) {
	const entry = items.find(({ link }) => link === address(index, 'internals/adr/README.md'))
	if (entry) Object.assign(entry, { collapsed: true, items: decisionItems })
}

/** The sections that fit into the bar at the top, each with its first page. */
export const topNavigation = sidebar.slice(0, 5).map(({ text, items }) => ({ text, link: items[0].link }))
