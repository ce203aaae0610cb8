import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { fastify } from 'fastify'
import { beforeAll, describe, expect, it } from 'vitest'
import { mountDashboard } from '../../../src/server/http/dashboard.ts'
import { nodeProgram, removeHomes, root, temporaryHome } from '../../support/home.ts'
import { startServer } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'

const server = useServer()
const builder = join(root, 'scripts', 'dashboard.mjs')
const built = join(root, 'dist', 'web')

beforeAll(() => {
  execFileSync(nodeProgram, [builder, '--if-stale'])
})

interface Told {
  readonly status: number
  readonly headers: NodeJS.Dict<string | string[]>
  readonly body: Buffer
}

/** Sends the path unchanged; `fetch` would normalize it. */
function ask(url: string, path: string, { method = 'GET', headers = {} }: { method?: string; headers?: object } = {}): Promise<Told> {
  const { hostname, port, host } = new URL(url)
  return new Promise((resolve, reject) => {
    const call = request({ hostname, port, path, method, headers: { host, ...headers }, agent: false }, (answer) => {
      const parts: Buffer[] = []
      answer.on('data', (part: Buffer) => parts.push(part))
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(parts) }))
    })
    call.on('error', reject)
    call.end()
  })
}

const script = (): string => `/assets/${readdirSync(join(built, 'assets')).find((name) => name.endsWith('.js'))}`

describe('the dashboard', () => {
  it('is served at / with a strict Content-Security-Policy, and revalidated each time', async () => {
    const { status, headers, body } = await ask(server.url, '/')
    expect(status).toBe(200)
    expect(headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-cache',
      'content-security-policy':
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'",
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    })
    expect(body).toEqual(readFileSync(join(built, 'index.html')))
    expect((await ask(server.url, '/?from=somewhere')).status).toBe(200)
  })

  it('refers to no other origin and has no inline code', () => {
    const page = readFileSync(join(built, 'index.html'), 'utf8')
    expect([...page.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, address]) => address)).toSatisfy((all: string[]) =>
      all.every((one) => one.startsWith('/assets/')),
    )
    expect(page).not.toMatch(/<script(?![^>]*src=)|<style|\son\w+=/)
  })

  it('has files with a hash in their names, which browsers cache', async () => {
    const { status, headers, body } = await ask(server.url, script())
    expect(status).toBe(200)
    expect(headers).toMatchObject({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
      'x-content-type-options': 'nosniff',
      vary: 'Accept-Encoding',
    })
    expect(body).toEqual(readFileSync(join(built, script())))
  })

  it('is compressed for clients that accept gzip', async () => {
    const plain = readFileSync(join(built, script()))
    for (const accepted of ['gzip', 'br, gzip', 'gzip;q=0.5', '*', 'deflate , GZIP ; q=1.0']) {
      const { headers, body } = await ask(server.url, script(), { headers: { 'accept-encoding': accepted } })
      expect([accepted, headers['content-encoding']]).toEqual([accepted, 'gzip'])
      expect(gunzipSync(body)).toEqual(plain)
      expect(headers['content-length']).toBe(String(body.length))
    }
    for (const accepted of ['identity', 'gzip;q=0', 'br', 'notgzip', '']) {
      const { headers, body } = await ask(server.url, script(), { headers: { 'accept-encoding': accepted } })
      expect([accepted, headers['content-encoding']]).toEqual([accepted, undefined])
      expect(body).toEqual(plain)
    }
  })

  it('answers GET and HEAD only', async () => {
    const head = await ask(server.url, '/', { method: 'HEAD' })
    expect([head.status, head.body.length]).toEqual([200, 0])
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
      const { status, body } = await ask(server.url, '/', { method })
      expect([method, status]).toEqual([method, 404])
      expect(JSON.parse(body.toString())).toMatchObject({ statusCode: 404, code: 'not_found' })
    }
  })

  it('serves no other files', async () => {
    const paths = [
      '/assets/../../../package.json',
      '/assets/../index.html',
      '/assets/%2e%2e/%2e%2e/package.json',
      '/assets/..%2f..%2f..%2fpackage.json',
      '/assets/..\\..\\package.json',
      '/assets//etc/passwd',
      '/assets/%00',
      '/assets/',
      '/assets',
      '/assets/__proto__',
      '/assets/constructor',
      `${script()}.gz`,
      `${script()}/`,
      '/index.html',
      '/index.html.gz',
      '/../package.json',
      '/.git/config',
      '//evil.example/',
      `/assets/${'a'.repeat(10_000)}`,
    ]
    for (const path of paths) {
      const { status, headers, body } = await ask(server.url, path)
      expect([path.slice(0, 60), status]).toEqual([path.slice(0, 60), 404])
      expect(headers['content-type']).toBe('application/json; charset=utf-8')
      expect(JSON.parse(body.toString())).toMatchObject({ code: 'not_found' })
    }
  })

  it('is refused for a foreign Host or Origin', async () => {
    expect((await ask(server.url, '/', { headers: { host: 'evil.example' } })).status).toBe(403)
    expect((await ask(server.url, script(), { headers: { host: 'evil.example' } })).status).toBe(403)
    expect((await ask(server.url, '/', { headers: { origin: 'http://evil.example' } })).status).toBe(403)
  })

  it('needs no token; every other route does', async () => {
    await using guarded = await startServer(['--token', 'only-for-us'])
    expect((await ask(guarded.url, '/')).status).toBe(200)
    expect((await ask(guarded.url, script())).status).toBe(200)
    for (const path of ['/api/health', '/api/agents', '/metrics', '/nowhere', '/api/', '/index.html'])
      expect([path, (await ask(guarded.url, path)).status]).toEqual([path, 401])
    expect((await ask(guarded.url, '/', { method: 'POST' })).status).toBe(401)
  })
})

describe('the folder of the dashboard', () => {
  const page = (files: string) => ask(files, '/')

  async function serving(files: string, test: (url: string) => Promise<void>): Promise<void> {
    const app = fastify()
    mountDashboard(app, files)
    try {
      await test(await app.listen({ host: '127.0.0.1', port: 0 }))
    } finally {
      await app.close()
    }
  }

  it('is reported as missing with the command that builds it, and served once it exists', async () => {
    const home = temporaryHome()
    const files = join(home, 'web')
    await serving(files, async (url) => {
      const missing = await page(url)
      expect([missing.status, missing.headers['content-type']]).toEqual([503, 'text/plain; charset=utf-8'])
      expect(missing.body.toString()).toContain('run "npm run prepare"')
      mkdirSync(files)
      // An incomplete build is not served.
      writeFileSync(join(files, 'other.html'), 'half')
      expect((await page(url)).status).toBe(503)
      writeFileSync(join(files, 'index.html'), 'one')
      expect((await page(url)).body.toString()).toBe('one')
      // The files stay in memory, so a page that was served before a new build still finds its script.
      rmSync(files, { recursive: true })
      expect((await page(url)).body.toString()).toBe('one')
    })
    removeHomes([home])
  })

  it('is served without symlinks and unknown file types', async () => {
    const home = temporaryHome()
    mkdirSync(join(home, 'assets'))
    writeFileSync(join(home, 'index.html'), 'page')
    writeFileSync(join(home, 'secret.js'), 'secret')
    writeFileSync(join(home, 'assets', 'note.conf'), 'no type')
    writeFileSync(join(home, 'assets', 'own.js'), 'own')
    writeFileSync(join(home, 'assets', 'own.js.gz'), gzipSync('own'))
    symlinkSync(join(home, 'secret.js'), join(home, 'assets', 'link.js'))
    await serving(home, async (url) => {
      expect((await ask(url, '/assets/own.js')).body.toString()).toBe('own')
      for (const path of ['/assets/link.js', '/assets/note.conf', '/assets/own.js.gz', '/secret.js'])
        expect([path, (await ask(url, path)).status]).not.toEqual([path, 200])
    })
    removeHomes([home])
  })
})

describe('the build of the dashboard', () => {
  it('prints nothing, is skipped while it is up to date, and stays below the size budget of its scripts', () => {
    expect(execFileSync(nodeProgram, [builder, '--if-stale'], { encoding: 'utf8' })).toBe('')
    const scripts = readdirSync(join(built, 'assets')).filter((name) => name.endsWith('.js.gz'))
    const bytes = scripts.reduce((sum, name) => sum + readFileSync(join(built, 'assets', name)).length, 0)
    expect(bytes).toBeGreaterThan(10_000)
    expect(bytes).toBeLessThan(150_000)
  })
})
