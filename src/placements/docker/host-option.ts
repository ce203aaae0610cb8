import { EbbError } from '../../core/model/errors.ts'

/** The address of a daemon, from the option `docker.host` or the variable DOCKER_HOST. */
export function parseDockerHost(text: string, name: string): string {
  if (/^unix:\/\/\/.+/.test(text) || /^tcp:\/\/[^\s/]+:\d{1,5}\/?$/.test(text)) return text
  throw new EbbError('bad_usage', `${name} must be unix:///PATH or tcp://HOST:PORT, not "${text}".`)
}
