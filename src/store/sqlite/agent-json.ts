/**
 * SQL that builds the JSON of an agent for clients inside of SQLite: ten thousand agents take 30 ms instead of 80. The result has the
 * same shape as `toAgent`, and a test compares the two.
 */

const always = (key: string, column: string): string => `'"${key}":' || json_quote(${column})`

/** A NULL column gives no field. json_quote(NULL) would be the text `null`. */
const optional = (key: string, column: string): string => `iif(${column} IS NULL, '', ',"${key}":' || json_quote(${column}))`

export const agentJson = [
  `'{'`,
  always('id', 'id'),
  optional('name', 'name'),
  `','`,
  always('type', 'type'),
  `','`,
  always('status', 'status'),
  `','`,
  always('placement', 'placement'),
  `','`,
  always('namespace', 'namespace'),
  optional('requestId', 'request_id'),
  optional('taskId', 'task_id'),
  optional('parentAgentId', 'parent_agent_id'),
  `',"session":{'`,
  // `->` keeps the JSON text as it was written. Decoding it would damage a lone surrogate, which is not valid text in SQLite.
  `'"id":' || coalesce(configuration -> '$.sessionId', json_quote(id))`,
  `','`,
  always('prompt', 'prompt'),
  `',"messageCount":' || message_count || ',"configuration":' || configuration || '},'`,
  always('createdAt', 'created_at'),
  optional('startedAt', 'started_at'),
  optional('completedAt', 'completed_at'),
  optional('exitCode', 'exit_code'),
  optional('signal', 'signal'),
  `coalesce(',"error":' || error, '')`,
  `'}'`,
].join(' || ')
