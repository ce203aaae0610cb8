import { realpath, stat } from 'node:fs/promises'
import type { Provider, ProviderCatalogue, ProviderInfo } from '../core/ports/provider.ts'

type Environment = Readonly<Record<string, string>>

export interface CatalogueDeps {
  /** The environment that agents get. */
  readonly environment: Environment
  /** Finds an executable program on the PATH of `env`. */
  readonly findProgram: (program: string, env: Environment) => string | undefined
  /** Runs `argv`, returns its output, and ends every process that it started. */
  readonly readVersion: (argv: readonly string[]) => Promise<string | undefined>
  /** How long a listing waits for a version, in milliseconds. */
  readonly patienceMs?: number
}

/**
 * The default of `patienceMs`. It is short because a user waits for the listing. A version that takes longer is included in the next
 * listing.
 */
const usualPatienceMs = 3_000

/** Lists the providers, and whether each can be used on this machine. */
export class Catalogue implements ProviderCatalogue {
  readonly #providers: ReadonlyMap<string, Provider>
  readonly #deps: CatalogueDeps
  /**
   * The version of each program, by the path and the modification time of its file, so that the version of an updated program is read
   * again.
   */
  readonly #versions = new Map<string, Promise<string | undefined>>()

  constructor(providers: readonly Provider[], deps: CatalogueDeps) {
    this.#providers = new Map(providers.map((provider) => [provider.type, provider]))
    this.#deps = deps
  }

  get types(): readonly string[] {
    return [...this.#providers.keys()]
  }

  find(type: string): Provider | undefined {
    return this.#providers.get(type)
  }

  /** Reads all versions at the same time. A program that fails or is slow is listed without a version. */
  async describe(): Promise<readonly ProviderInfo[]> {
    return Promise.all([...this.#providers.values()].map((provider) => this.#describeOne(provider)))
  }

  async #describeOne(provider: Provider): Promise<ProviderInfo> {
    const { type, name, description, capabilities, models, program, inputs = [] } = provider
    const path = program === undefined ? undefined : this.#deps.findProgram(program, this.#deps.environment)
    const version = path === undefined ? undefined : await this.#version(path)
    const isAvailable = program === undefined || path !== undefined
    return { type, name, description, isAvailable, ...(version !== undefined && { version }), capabilities, models, inputs }
  }

  async #version(path: string): Promise<string | undefined> {
    const { promise: late, resolve } = Promise.withResolvers<undefined>()
    const timer = setTimeout(() => resolve(undefined), this.#deps.patienceMs ?? usualPatienceMs)
    try {
      return await Promise.race([this.#cached(path), late])
    } catch {
      return undefined
    } finally {
      clearTimeout(timer)
    }
  }

  async #cached(path: string): Promise<string | undefined> {
    const file = await realpath(path)
    const key = `${(await stat(file)).mtimeMs} ${file}`
    const known = this.#versions.get(key)
    if (known) return known
    for (const old of this.#versions.keys()) if (old.endsWith(` ${file}`)) this.#versions.delete(old)
    const version = this.#deps.readVersion([path, '--version']).then(numberOf)
    this.#versions.set(key, version)
    // A failed query for a version is deleted, so that the next listing tries again. The caller gets the error from `version`. A query
    // that hangs stays in the map.
    version.catch(() => this.#versions.delete(key))
    return version
  }
}

/** Extracts the number from outputs such as `2.1.197 (Claude Code)` and `codex-cli 0.166.0`. */
function numberOf(printed: string | undefined): string | undefined {
  return printed === undefined ? undefined : (/\d+\.\d+\S*/.exec(printed)?.[0] ?? (printed.trim().split('\n')[0] || undefined))
}
