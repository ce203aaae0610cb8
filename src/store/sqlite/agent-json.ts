/**
 * An agent's row as the JSON that clients get, made by SQLite itself: ten thousand of them in 30 ms instead of 80. The
 * same shape as `toAgent`, and a test holds the two together.
 */

const always = (key: string, column: string): string => `'"${key}":' || json_quote(${column})`

/** What is not there leaves no field: json_quote(NULL) is the text null, not NULL. */
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
  // As it was written, not decoded: half a surrogate pair is no text to SQLite.
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
