import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** The files and the environment with which each agent uses only this model. */

interface Home {
  readonly files?: Readonly<Record<string, string>>
  readonly env: Readonly<Record<string, string>>
  /** Variables that would select another model or the user's own login. They are set to '', which the agents treat as not set. */
  readonly empty: readonly string[]
}

const homes: Readonly<Record<string, (url: string, home: string) => Home>> = {
  'claude-code': (url, home) => ({
    env: {
      CLAUDE_CONFIG_DIR: join(home, '.claude'),
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: 'scripted',
      // As root, claude accepts --dangerously-skip-permissions only with IS_SANDBOX.
      IS_SANDBOX: '1',
      DISABLE_TELEMETRY: '1',
      DISABLE_AUTOUPDATER: '1',
      DISABLE_ERROR_REPORTING: '1',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    },
    empty: [
      'CLAUDE_CODE_USE_BEDROCK',
      'CLAUDE_CODE_USE_VERTEX',
      'CLAUDE_CODE_USE_FOUNDRY',
      'CLAUDE_CODE_USE_MANTLE',
      'CLAUDE_CODE_USE_GATEWAY',
      'CLAUDE_CODE_USE_ANTHROPIC_AWS',
      'CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD',
      'CLAUDE_CODE_OAUTH_TOKEN',
      'ANTHROPIC_AUTH_TOKEN',
      'ANTHROPIC_MODEL',
      'ANTHROPIC_CUSTOM_HEADERS',
      'ANTHROPIC_PROFILE',
      'ANTHROPIC_UNIX_SOCKET',
    ],
  }),

  codex: (url, home) => ({
    files: {
      '.codex/config.toml': [
        'model = "scripted"',
        'model_provider = "scripted"',
        'check_for_update_on_startup = false',
        '',
        '[analytics]',
        'enabled = false',
        '',
        '[model_providers.scripted]',
        'name = "scripted"',
        `base_url = "${url}/v1"`,
        'env_key = "SCRIPTED_MODEL_KEY"',
        'wire_api = "responses"',
        'requires_openai_auth = false',
        'supports_websockets = false',
        '',
      ].join('\n'),
    },
    env: { CODEX_HOME: join(home, '.codex'), SCRIPTED_MODEL_KEY: 'scripted' },
    empty: ['OPENAI_API_KEY', 'OPENAI_BASE_URL'],
  }),

  'gemini-cli': (url, home) => ({
    files: {
      '.gemini/settings.json': JSON.stringify({
        security: { auth: { selectedType: 'gemini-api-key' } },
        general: { disableAutoUpdate: true, disableUpdateNag: true },
        privacy: { usageStatisticsEnabled: false },
      }),
    },
    env: { GEMINI_CLI_HOME: home, GEMINI_API_KEY: 'scripted', GOOGLE_GEMINI_BASE_URL: url, GEMINI_CLI_TRUST_WORKSPACE: 'true' },
    empty: [
      'GEMINI_MODEL',
      'GOOGLE_API_KEY',
      'GOOGLE_GENAI_USE_VERTEXAI',
      'GOOGLE_GENAI_USE_GCA',
      'GOOGLE_CLOUD_PROJECT',
      'GOOGLE_APPLICATION_CREDENTIALS',
    ],
  }),

  opencode: (url) => ({
    files: {
      '.config/opencode/opencode.json': JSON.stringify({
        model: 'scripted/scripted',
        autoupdate: false,
        share: 'disabled',
        provider: {
          scripted: {
            npm: '@ai-sdk/openai-compatible',
            options: { baseURL: `${url}/v1`, apiKey: 'scripted' },
            models: { scripted: {} },
          },
        },
      }),
    },
    env: { OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_LSP_DOWNLOAD: '1' },
    // OPENCODE_CONFIG_CONTENT is not emptied: Ebb passes tools and MCP servers in that variable, and refuses a launch that sets it.
    empty: ['OPENCODE_CONFIG', 'OPENCODE_CONFIG_DIR'],
  }),
}

const proxies = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'http_proxy', 'https_proxy', 'all_proxy']

export async function furnish(type: string, home: string, url: string): Promise<Readonly<Record<string, string>>> {
  const known = Object.hasOwn(homes, type) ? homes[type] : undefined
  if (!known) throw new Error(`There is no home for ${JSON.stringify(type)}; use one of ${Object.keys(homes).join(', ')}.`)
  const { files = {}, env, empty } = known(url, home)
  await mkdir(home, { recursive: true, mode: 0o700 })
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(home, name)), { recursive: true, mode: 0o700 })
    await writeFile(join(home, name), text, { mode: 0o600 })
  }
  return { ...sharedEnvironment(home), ...Object.fromEntries(empty.map((name) => [name, ''])), ...env }
}

/** The variables for every agent: they keep it away from the user's own configuration, and from proxies. */
function sharedEnvironment(home: string): Readonly<Record<string, string>> {
  return {
    HOME: home,
    XDG_CONFIG_HOME: join(home, '.config'),
    XDG_DATA_HOME: join(home, '.local/share'),
    XDG_STATE_HOME: join(home, '.local/state'),
    XDG_CACHE_HOME: join(home, '.cache'),
    ...Object.fromEntries(proxies.map((name) => [name, ''])),
    NO_PROXY: '127.0.0.1,localhost',
    no_proxy: '127.0.0.1,localhost',
  }
}
