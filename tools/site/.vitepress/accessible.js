// What axe-core finds in components of the theme, and its correction.
const corrections = {
	// The heading of a section is a button, and so was the arrow in it.
	'VPSidebarItem.vue': [
		[':role="itemRole"', ':role="itemRole" :aria-expanded="!item.link && item.items ? !collapsed : undefined"'],
		['role="button"', `:role="item.link && 'button'"`],
		['aria-label="toggle section"', `:aria-label="item.link && 'toggle section'"`],
		['tabindex="0"', ':tabindex="item.link && 0"'],
	],
	// The search box was a button around a list of options that contain links.
	'VPLocalSearchBox.vue': [
		['role="button"', 'role="dialog" aria-modal="true"'],
		[`:aria-owns="results?.length ? 'localsearch-list' : undefined"`, ''],
		['aria-expanded="true"', ''],
		['aria-haspopup="listbox"', ''],
		[`:aria-activedescendant="selectedIndex > -1 ? ('localsearch-item-' + selectedIndex) : undefined"`, ''],
		[`:role="results?.length ? 'listbox' : undefined"`, ''],
		[`:aria-selected="selectedIndex === index ? 'true' : 'false'"`, ''],
		['role="option"', ''],
		[`:aria-label="[...p.titles, p.title].join(' > ')"`, ''],
		['<kbd :aria-label', '<kbd role="img" :aria-label'],
	],
}

/** A plug-in of Vite. It fails if a component no longer contains what it corrects. */
export const accessible = {
	name: 'accessible',
	enforce: 'pre',
	transform(code, id) {
		for (const [before, after] of corrections[id.split('/').pop()] ?? []) {
			if (!code.includes(before)) throw new Error(`${id} does not contain ${before}`)
			code = code.replaceAll(before, after)
		}
		return code
	},
}
