// The documentation site. docs/ is its only source: the navigation is generated from
// docs/README.md, and the home page from README.md.
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vitepress'
import { accessible } from './accessible.js'
import { adaptToSite, slug } from './markdown.js'
import { sidebar, topNavigation } from './navigation.js'
import { home, tagline } from './home.js'
import { addPolicy } from './policy.js'
import { forge, root } from './repository.js'

// Pages do not find the packages of this folder, because they are outside of it. The client
// build has an alias for Vue; the build that writes the HTML imports it when it runs.
const vueFromHere = {
	name: 'vue-from-here',
	enforce: 'pre',
	resolveId: (id, _, { ssr }) => (ssr && /^vue(\/|$)/.test(id) ? { id, external: true } : null),
}

// By default, lines have no colours if the machine is too busy.
const highlightAlways = {
	preprocess(_, options) {
		options.tokenizeTimeLimit = 0
	},
}

export default defineConfig({
	title: 'Headgate',
	description: tagline,
	lang: 'en',
	srcDir: join(root, 'docs'),
	cacheDir: join(root, 'dist/site-cache'),
	vite: {
		plugins: [vueFromHere, accessible],
		build: { chunkSizeWarningLimit: 2000 }, // the search index, in kB
	},
	rewrites: (page) => page.replace(/README\.md$/, 'index.md'),
	// The transition of colours would add a style element, which the policy forbids.
	appearance: { disableTransition: false },
	buildConcurrency: 1, // the search index depends on the order of the pages
	metaChunk: true, // an inline script would need a hash for each page
	markdown: {
		theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
		languageAlias: { haproxy: 'nginx', promql: 'sql' }, // no grammar exists for these
		anchor: { slugify: slug },
		attrs: { disable: true }, // GitHub has no syntax for attributes
		codeTransformers: [highlightAlways],
		config: adaptToSite,
	},
	themeConfig: {
		logo: { src: '/icon.svg', alt: '' },
		nav: topNavigation,
		sidebar,
		outline: [2, 3],
		search: { provider: 'local', options: { detailedView: false } },
		editLink: { pattern: `${forge}/edit/main/docs/:path`, text: 'Edit this page on GitHub' },
		notFound: { quote: 'The address is wrong, or the page has moved.', linkText: 'Home', linkLabel: 'Home' },
		socialLinks: [{ icon: 'github', link: forge }],
	},
	transformPageData: (page) => (page.relativePath === 'index.md' ? home(page) : undefined),
	transformHead: ({ siteData, description }) => [
		['link', { rel: 'icon', href: `${siteData.base}icon.svg`, type: 'image/svg+xml' }],
		['meta', { name: 'description', content: description }], // VitePress does not escape its own
	],
	transformHtml: addPolicy,
	buildEnd: ({ outDir }) => copyFileSync(join(root, 'internal/theme/icon.svg'), join(outDir, 'icon.svg')),
})
