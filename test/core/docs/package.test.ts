import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { nodeProgram, root, startEbb, temporaryHome } from '../../support/home.ts'

/** Installs the packed package as a user would: outside of the checkout, without development dependencies. */
function installed(): { readonly folder: string; readonly place: string } {
  const folder = temporaryHome()
  const packed = execFileSync('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder], {
    cwd: root,
    encoding: 'utf8',
  })
  const place = join(folder, 'node_modules', 'ebb')
  mkdirSync(place, { recursive: true })
  execFileSync('tar', ['-xzf', join(folder, packed.trim()), '-C', place, '--strip-components=1'])
  const { dependencies, optionalDependencies } = JSON.parse(readFileSync(join(place, 'package.json'), 'utf8'))
  for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
    const link = join(folder, 'node_modules', name)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(join(root, 'node_modules', name), link)
  }
  return { folder, place }
}

it('package: contains the built command and dashboard', async () => {
  const { folder, place } = installed()
  expect(readdirSync(place).toSorted()).toEqual(['CHANGELOG.md', 'LICENSE', 'README.md', 'bin', 'dist', 'lib', 'package.json'])
  const server = startEbb(['serve', '--port', '0', '--json'], {
    home: temporaryHome(),
    cwd: folder,
    env: { PATH: `${dirname(nodeProgram)}:${process.env.PATH}` },
    program: join(place, 'bin', 'ebb'),
  })
  try {
    await server.says('\n')
    const { url } = JSON.parse(server.output())
    const page = await (await fetch(url)).text()
    expect(page).toContain('<title>Ebb')
    const script = /src="([^"]+\.js)"/.exec(page)?.[1] ?? ''
    expect((await fetch(`${url}${script}`)).status).toBe(200)
  } finally {
    server.signal('SIGTERM')
    expect((await server.ended).code).toBe(0)
  }
})

it('package: the imported library runs an agent, and the testing kit a server', () => {
  const { folder } = installed()
  const program = `
    import { openEbb } from 'ebb'
    import { startServer } from 'ebb/testing'
    import { startScriptedModel } from 'ebb/testing/scripted-model'
    {
      await using ebb = await openEbb({ home: process.argv[2], containment: process.argv[3] })
      await using request = ebb.request('of-a-package')
      await using agent = await request.launch({ type: 'command', prompt: 'heard', configuration: { command: ['cat'] } })
      for await (const { type, content } of agent.messages()) console.log(type, content)
    }
    await using server = await startServer()
    await using model = await startScriptedModel()
    for (const { url } of [server, model]) console.log((await fetch(url)).status > 0)
  `
  writeFileSync(join(folder, 'program.mjs'), program)
  // The subreaper process is a separate program, which is located relative to the module that starts it.
  for (const containment of ['auto', 'subreaper']) {
    const words = [join(folder, 'program.mjs'), temporaryHome(), containment]
    const env = { ...process.env, PATH: `${dirname(nodeProgram)}:${process.env.PATH}` }
    const said = execFileSync(nodeProgram, words, { cwd: folder, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
    expect(said).toBe('user heard\nresponse heard\ntrue\ntrue\n')
  }
})
