import { createHash } from 'node:crypto'

/**
 * Adds a Content-Security-Policy to a page. Nothing is loaded from another host. The only
 * inline scripts are the two of VitePress, by their hashes. Highlighted code has style
 * attributes.
 */
export function addPolicy(html) {
	const inline = [...html.matchAll(/<script(?![^>]* src=)[^>]*>([^]*?)<\/script>/g)].map(([, text]) => text)
	const hashes = inline.map((text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`)
	const policy = [
		"default-src 'none'",
		`script-src 'self' ${hashes.join(' ')}`,
		"style-src 'self'",
		"style-src-attr 'unsafe-inline'",
		"img-src 'self' data:",
		"connect-src 'self'",
		"base-uri 'none'",
		"form-action 'none'",
	]
	return html.replace('<meta charset="utf-8">', (meta) => `${meta}\n    <meta http-equiv="Content-Security-Policy" content="${policy.join('; ')}">`)
}
