import { useData, withBase } from 'vitepress'
import DefaultTheme from 'vitepress/theme-without-fonts'
import { h } from 'vue'
import dark from '../../../../docs/pictures/demo-dark.png'
import light from '../../../../docs/pictures/demo-light.png'
import './style.css'

const picture = (shown, src) =>
	h('img', { class: shown, src, alt: useData().frontmatter.value.demo, width: 1440, height: 920, loading: 'lazy' })

// The link of the picture is the caption, so that it is not announced twice.
const Demo = () =>
	h('figure', { class: 'demo' }, [
		picture('in-light', light),
		picture('in-dark', dark),
		h('figcaption', ['The six algorithms on the same requests: ', h('a', { href: withBase('/start/demo.html') }, 'demo page')]),
	])

export default {
	extends: DefaultTheme,
	Layout: () => h(DefaultTheme.Layout, null, { 'home-features-after': () => h(Demo) }),
}
