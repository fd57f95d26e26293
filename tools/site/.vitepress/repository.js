import { existsSync, readFileSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of the repository. */
export const root = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '')

/** Returns the text of a file of the repository. */
export const read = (name) => readFileSync(join(root, name), 'utf8')

/** The repository on the forge: the module path. */
export const forge = 'https://' + read('go.mod').match(/^module (.+)$/m)[1]

const docs = join(root, 'docs')

/**
 * Returns the address of a file or folder of the repository: a path on the site for a page
 * in docs/, the forge for everything else.
 */
export function addressOf(file) {
	if (!existsSync(file)) throw new Error(`${file} does not exist`)
	if (file.startsWith(docs + '/') && file.endsWith('.md')) {
		return '/' + relative(docs, file).replace(/README\.md$/, '')
	}
	return `${forge}/${statSync(file).isDirectory() ? 'tree' : 'blob'}/main/${relative(root, file)}`
}
