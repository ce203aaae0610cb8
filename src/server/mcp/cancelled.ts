import { isJSONRPCNotification, type JSONRPCMessage, type RequestId } from '@modelcontextprotocol/client'

/** The request that the message cancels; undefined unless it is `notifications/cancelled`. */
export function cancelledId(message: JSONRPCMessage): RequestId | undefined {
  if (!isJSONRPCNotification(message) || message.method !== 'notifications/cancelled') return undefined
  return message.params?.requestId as RequestId | undefined
}
