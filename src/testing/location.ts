import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * `bin/ebb` of the package that this file belongs to. Not by `import.meta`: Playwright makes CommonJS of us in a project
 * that is not one of modules, where that is a syntax error. Every loader tells V8 the file, so a call site knows it.
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
