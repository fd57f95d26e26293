import { sidebar } from './navigation.js'
import { read } from './repository.js'

const readme = read('README.md')
const [, title, introduction] = readme.match(/^# (.*)\n+([^]*?)\n\n/)
const capital = (text) => text[0].toUpperCase() + text.slice(1)
const html = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replace(/`([^`]+)`/g, '<code>$1</code>')

/** The first paragraph of README.md. */
export const tagline = introduction.replaceAll('\n', ' ')

/** Returns the data of the home page: title, introduction and list of README.md, before docs/README.md. */
export function home({ frontmatter }) {
	const [name, text] = title.split(': ')
	const features = [...readme.matchAll(/^- \*\*(.+?)\.?\*\* (.+)$/gm)]
	return {
		title,
		titleTemplate: false,
		description: tagline,
		frontmatter: {
			...frontmatter,
			layout: 'home',
			demo: readme.match(/<img [^>]*alt="([^"]+)"/)[1],
			hero: {
				name,
				text: capital(text),
				tagline: html(tagline),
				actions: sidebar[0].items.slice(0, 3).map((item, i) => ({ ...item, theme: i ? 'alt' : 'brand' })),
			},
			features: features.map(([, title, details]) => ({ title, details: html(capital(details)) })),
		},
	}
}
