import { isJSONRPCNotification, type JSONRPCMessage, type RequestId } from '@modelcontextprotocol/client'

/** Which request its client does not want to be answered any more, if that is what it says. */
export function cancelledId(message: JSONRPCMessage): RequestId | undefined {
  if (!isJSONRPCNotification(message) || message.method !== 'notifications/cancelled') return undefined
  return message.params?.requestId as RequestId | undefined
}
