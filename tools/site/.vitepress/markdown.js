import { dirname, resolve } from 'node:path'
import { addressOf } from './repository.js'

/** Returns the anchor that GitHub creates for a heading. */
export const slug = (heading) =>
	heading.trim().toLowerCase().replace(/[^\p{L}\p{M}\p{N} _-]/gu, '').replaceAll(' ', '-')

/** Makes pages that are written for GitHub work on the site. */
export function adaptToSite(md) {
	md.core.ruler.push('site', ({ tokens, env }) => {
		if (env.frontmatter) env.frontmatter.description ??= describe(tokens)
		for (const token of tokens.flatMap((t) => [t, ...(t.children ?? [])])) {
			if (token.type === 'link_open') token.attrSet('href', resolveLink(token.attrGet('href'), env.realPath ?? env.path))
			if (token.type.startsWith('html_')) token.content = adaptHTML(token.content)
		}
		tokens.filter((t) => t.content.startsWith('[ ] ')).forEach((inline) => markTask(inline, tokens))
	})
}

/** Replaces the brackets of an item of a task list by a class of the item. */
function markTask(inline, tokens) {
	const item = tokens[tokens.indexOf(inline) - 2]
	if (item?.type !== 'list_item_open') return
	item.attrSet('class', 'task')
	inline.children[0].content = inline.children[0].content.slice('[ ] '.length)
}

/** Returns the address on the site of a link in a page, or on the forge if it leaves docs/. */
function resolveLink(href, page) {
	if (/^([a-z]+:|#)/.test(href)) return href
	const [path, anchor] = href.split('#')
	return addressOf(resolve(dirname(page), decodeURI(path))) + (anchor ? `#${anchor}` : '')
}

const picture = /<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\s*<img src="([^"]+)"([^>]*)>\s*<\/picture>/g

/** Lets the switch of the site choose between light and dark pictures. */
const adaptHTML = (html) => html.replace(picture, '<img class="in-light" src="$2"$3><img class="in-dark" src="$1"$3>')

const longest = 160 // characters that search engines show

/** Returns the beginning of the first paragraph as plain text. */
function describe(tokens) {
	const paragraph = tokens[tokens.findIndex((t) => t.type === 'paragraph_open') + 1]
	const texts = paragraph?.children?.map((t) => (t.type === 'softbreak' ? ' ' : t.type === 'image' ? '' : t.content)) ?? []
	const text = texts.join('').trim()
	return text.length <= longest ? text : text.slice(0, longest).replace(/\s+\S*$/, ' …')
}
