import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * The path of `bin/ebb` in the package of this file. `import.meta` cannot be used: in a project without ES modules Playwright
 * compiles this file to CommonJS, where that is a syntax error. A V8 call site has the file name with every loader.
 */
export function ebbProgram(): string {
  return join(dirname(thisFile()), '..', '..', 'bin', 'ebb')
}

function thisFile(): string {
  const { prepareStackTrace } = Error
  try {
    Error.prepareStackTrace = (_error, sites) => sites[0]?.getFileName()
    const [file = ''] = String(new Error('here').stack).split('?')
    return file.startsWith('file:') ? fileURLToPath(file) : file
  } finally {
    Error.prepareStackTrace = prepareStackTrace
  }
}
