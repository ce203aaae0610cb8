import type { OutputPiece, OutputStream } from './ports.ts'

/**
 * The daemon sends both streams of a container as one sequence of frames: one byte for the stream, three zero bytes, four bytes for the
 * length, then the data (Docker Engine API, ContainerAttach, "Stream format"). A frame holds one line at most, and may be split anywhere.
 * The data of one chunk is passed on together, one piece per stream: that turns 300 000 short lines into 3 000 writes, whereas one write
 * per line reached only 40 kB per second. A chunk is never larger than the buffer of its connection, so memory is bounded, however long a
 * frame is.
 */

const headerBytes = 8

const streams: Readonly<Record<number, OutputStream>> = { 1: 'stdout', 2: 'stderr' }
/** An error of the daemon that stopped it from reading on. It is not output of the container (moby, stdcopy.Systemerr). */
const daemonsWords = 3

export async function* splitFrames(chunks: AsyncIterable<Uint8Array>): AsyncIterable<OutputPiece> {
  let header = Buffer.alloc(0)
  let stream = 0
  let left = 0
  let words = ''
  for await (const chunk of chunks) {
    const pieces: Record<OutputStream, Buffer[]> = { stdout: [], stderr: [] }
    for (let rest = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength); rest.length > 0; ) {
      if (left > 0) {
        const taken = rest.subarray(0, left)
        if (stream === daemonsWords) words += taken.toString('utf8')
        else pieces[streamOf(stream)].push(taken)
        left -= taken.length
        rest = rest.subarray(taken.length)
      } else {
        const missing = headerBytes - header.length
        header = Buffer.concat([header, rest.subarray(0, missing)])
        rest = rest.subarray(missing)
        if (header.length < headerBytes) continue
        stream = header.readUInt8(0)
        left = header.readUInt32BE(4)
        header = Buffer.alloc(0)
      }
    }
    for (const name of ['stdout', 'stderr'] as const) if (pieces[name].length > 0) yield { stream: name, bytes: joined(pieces[name]) }
    if (words !== '' && left === 0) break
  }
  if (words !== '') throw new Error(`the Docker daemon could not read the output: ${words.trim()}`)
}

function joined(pieces: readonly Buffer[]): Buffer {
  const [first] = pieces
  return pieces.length === 1 && first ? first : Buffer.concat(pieces)
}

function streamOf(number: number): OutputStream {
  const stream = streams[number]
  if (!stream) throw new Error(`the Docker daemon sent output of the unknown stream ${number}`)
  return stream
}
