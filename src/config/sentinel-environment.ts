import type { Config } from './config.ts'
import { databaseIn } from './home.ts'

/** By which the daemon is found, as the docker command finds it. */
const dockerVariables = ['DOCKER_HOST', 'DOCKER_TLS_VERIFY', 'DOCKER_CERT_PATH']

/** Whom Node trusts besides: a runner, or an endpoint of AWS, may have a certificate of one's own. */
const trustVariables = ['NODE_EXTRA_CA_CERTS']

/** What the recovery needs to find its way and to do as we would, and the outer Ebb's mark; nothing else of the user's. */
export function sentinelEnvironment(config: Config): Record<string, string> {
  const { environment, home, store, limitLog, limitMessages, remoteUrl, remoteToken, dockerImage, dockerHost } = config
  const kept = ['PATH', 'HOME', 'TMPDIR', 'EBB_SCOPE', 'LD_LIBRARY_PATH', ...trustVariables, ...dockerVariables]
  return {
    ...Object.fromEntries(kept.flatMap((name) => (environment[name] === undefined ? [] : [[name, environment[name]]]))),
    // Also the usual one: by then the home may have a server that keeps its records elsewhere.
    EBB_STORE: `sqlite:${store ?? databaseIn(home)}`,
    ...(dockerImage !== undefined && { EBB_DOCKER_IMAGE: dockerImage }),
    ...(dockerHost !== undefined && { EBB_DOCKER_HOST: dockerHost }),
    ...(remoteUrl !== undefined && { EBB_REMOTE_URL: remoteUrl }),
    ...(remoteToken !== undefined && { EBB_REMOTE_TOKEN: remoteToken }),
    ...ecsEnvironment(config),
    EBB_LIMIT_LOG: String(limitLog),
    EBB_LIMIT_MESSAGES: String(limitMessages),
  }
}

/** Where to find what runs on AWS, and as whom: variables of the AWS SDK all begin so. */
function ecsEnvironment(config: Config): Record<string, string> {
  if (config.ecsCluster === undefined) return {}
  const own = {
    EBB_ECS_CLUSTER: config.ecsCluster,
    EBB_ECS_TASK_DEFINITION: config.ecsTaskDefinition,
    EBB_ECS_PORT: String(config.ecsPort),
    EBB_ECS_TOKEN: config.ecsToken,
    EBB_ECS_TARGET_GROUP: config.ecsTargetGroup,
    EBB_ECS_BUCKET: config.ecsBucket,
    EBB_ECS_PREFIX: config.ecsPrefix,
    EBB_ECS_REGION: config.ecsRegion,
    EBB_ECS_ENDPOINT: config.ecsEndpoint,
    EBB_ECS_UPLOAD_DEADLINE: config.ecsUploadDeadline === undefined ? undefined : `${config.ecsUploadDeadline}ms`,
  }
  const sdk = Object.entries(config.environment).filter(([name]) => name.startsWith('AWS_'))
  return Object.fromEntries([...sdk, ...Object.entries(own)].filter((entry): entry is [string, string] => entry[1] !== undefined))
}
