// Maps of attention: layers × heads × rows × columns bytes; a byte is 255·√weight, its place on the colour ramp.

const intensity = (weight) => Math.min(255, Math.round(255 * Math.sqrt(weight)));

/** The weights of one layer and head of a map, row after row; null means the mean over them. */
function readWeights(map, layer, head) {
  map.bytes ??= Uint8Array.from(atob(map.data), (c) => c.charCodeAt(0));
  const layers = layer === null ? [...Array(map.layers).keys()] : [layer];
  const heads = head === null ? [...Array(map.heads).keys()] : [head];
  const sum = new Float32Array(map.rows * map.columns);
  for (const l of layers) for (const h of heads) {
    const start = (l * map.heads + h) * sum.length;
    for (let i = 0; i < sum.length; i++) sum[i] += (map.bytes[start + i] / 255) ** 2;
  }
  return sum.map((value) => value / (layers.length * heads.length));
}

/** Paint weights, row after row, on a canvas: a pixel each, `width` in a row. */
function paint(canvas, colours, weights, width) {
  canvas.width = width;
  canvas.height = weights.length / width;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  for (let i = 0; i < weights.length; i++) {
    image.data.set(colours[intensity(weights[i])], 4 * i);
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}
