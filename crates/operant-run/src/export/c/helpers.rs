//! The C functions that statements call. `$` stands for the prefix of all names.

/// A function: its name without the prefix, the functions that it calls, and its text.
struct Helper {
    name: &'static str,
    calls: &'static [&'static str],
    text: &'static str,
}

/// What [`Helper::text`] has before a product with weights, and where the weights are a parameter: int8 weights have a scale.
const SCALED: &str = "SCALED ";
const WEIGHT: &str = "const float *weight";
/// Ends the names of functions whose weights are int8.
pub const INT8: &str = "_int8";

/// The texts of these functions and of those that they call, in an order in which each comes before its calls.
pub fn texts(used: &std::collections::BTreeSet<String>) -> String {
    let is_used = |name: &str| {
        let is_called = |of: &Helper| used.contains(of.name) && of.calls.contains(&name);
        used.contains(name) || HELPERS.iter().any(is_called)
    };
    let mut texts = String::new();
    for helper in HELPERS {
        if is_used(helper.name) {
            texts.push_str(&helper.text.replace(SCALED, ""));
        }
        if used.contains(&format!("{}{INT8}", helper.name)) {
            texts.push_str(&of_int8(helper));
        }
    }
    texts
}

/// The same function for weights that are int8.
fn of_int8(helper: &Helper) -> String {
    let row = if helper.name == "product" { "k" } else { "o" };
    helper
        .text
        .replace(&format!("$_{}(", helper.name), &format!("$_{}{INT8}(", helper.name))
        .replace(WEIGHT, "const int8_t *weight, const float *scale")
        .replace("const float *w = weight", "const int8_t *w = weight")
        .replace(SCALED, &format!("scale[{row}] * "))
}

const HELPERS: &[Helper] = &[
    Helper {
        name: "exp",
        calls: &[],
        text: "
/* e to the power of x, within 2e-7 of it. */
static float $_exp(float x)
{
    union { float number; uint32_t bits; } power;
    float r, sum;
    int n;
    x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    n = (int)(x * 1.44269504f + (x < 0.0f ? -0.5f : 0.5f));
    r = (x - (float)n * 0.693359375f) + (float)n * 2.12194440e-4f;
    sum = 1.0f + r * (1.0f / 6.0f) * (1.0f + r * (1.0f / 7.0f));
    sum = 1.0f + r * 0.5f * (1.0f + r * (1.0f / 3.0f) * (1.0f + r * 0.25f * (1.0f + r * 0.2f * sum)));
    power.bits = (uint32_t)(n + 127) << 23;
    return (1.0f + r * sum) * power.number;
}
",
    },
    Helper {
        name: "tanh",
        calls: &["exp"],
        text: "
static float $_tanh(float x)
{
    const float s = x * x;
    if (s < 0.25f)
        return x * (945.0f + s * (105.0f + s)) / (945.0f + s * (420.0f + s * 15.0f));
    if (x < 0.0f)
        return 2.0f / ($_exp(-2.0f * x) + 1.0f) - 1.0f;
    return 1.0f - 2.0f / ($_exp(2.0f * x) + 1.0f);
}
",
    },
    Helper {
        name: "softplus",
        calls: &["exp"],
        text: "
/* The logarithm of 1 + e^x. */
static float $_softplus(float x)
{
    const float power = $_exp(x < 0.0f ? x : -x);
    const float t = power / (2.0f + power), s = t * t;
    float sum = 1.0f / 13.0f;
    for (int k = 11; k > 0; k -= 2)
        sum = sum * s + 1.0f / (float)k;
    return (x > 0.0f ? x : 0.0f) + 2.0f * t * sum;
}
",
    },
    Helper {
        name: "dense",
        calls: &[],
        text: "
/* y = W x + b for each row of x; W is (outputs, inputs). */
static void $_dense(const float *weight, const float *bias, const float *x, int rows, int inputs, int outputs,
                    float *y)
{
    for (int r = 0; r < rows; r++, x += inputs) {
        const float *w = weight;
        for (int o = 0; o < outputs; o++) {
            float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
            int i = 0;
            for (; i + 3 < inputs; i += 4, w += 4) {
                a += (float)w[0] * x[i];
                b += (float)w[1] * x[i + 1];
                c += (float)w[2] * x[i + 2];
                d += (float)w[3] * x[i + 3];
            }
            for (; i < inputs; i++, w++)
                a += (float)*w * x[i];
            *y++ = bias[o] + SCALED ((a + b) + (c + d));
        }
    }
}
",
    },
    Helper {
        name: "conv",
        calls: &[],
        text: "
/* A convolution without padding of an image (depth, height, width); W is (channels, depth, kernel, kernel). */
static void $_conv(const float *weight, const float *bias, const float *x, int depth, int height, int width,
                   int channels, int kernel, int stride, float *y)
{
    for (int o = 0; o < channels; o++)
        for (int top = 0; top + kernel <= height; top += stride)
            for (int left = 0; left + kernel <= width; left += stride) {
                const float *w = weight + o * depth * kernel * kernel;
                float sum = 0.0f;
                for (int z = 0; z < depth; z++)
                    for (int row = 0; row < kernel; row++) {
                        const float *from = x + (z * height + top + row) * width + left;
                        for (int k = 0; k < kernel; k++)
                            sum += (float)*w++ * from[k];
                    }
                *y++ = bias[o] + SCALED sum;
            }
}
",
    },
    Helper {
        name: "product",
        calls: &[],
        text: "
/* y = x W; x is (rows, inner) and W is (inner, columns). Zeros of x cost nothing. */
static void $_product(const float *weight, const float *x, int rows, int inner, int columns, float *y)
{
    for (int r = 0; r < rows; r++, y += columns) {
        for (int c = 0; c < columns; c++)
            y[c] = 0.0f;
        for (int k = 0; k < inner; k++, x++)
            if (*x != 0.0f)
                for (int c = 0; c < columns; c++)
                    y[c] += SCALED *x * (float)weight[k * columns + c];
    }
}
",
    },
    Helper {
        name: "norm",
        calls: &[],
        text: "
/* Layer normalisation of each row. */
static void $_norm(const float *weight, const float *bias, const float *x, int rows, int width, float *y)
{
    for (int r = 0; r < rows; r++, x += width, y += width) {
        union { float number; uint32_t bits; } root;
        float mean = 0.0f, variance = 0.0f;
        for (int i = 0; i < width; i++)
            mean += x[i];
        mean /= (float)width;
        for (int i = 0; i < width; i++)
            variance += (x[i] - mean) * (x[i] - mean);
        variance = variance / (float)width + 1e-5f;
        /* 1 / sqrt(variance) by Newton's method. */
        root.number = variance;
        root.bits = 0x5f3759dfu - (root.bits >> 1);
        for (int k = 0; k < 4; k++)
            root.number *= 1.5f - 0.5f * variance * root.number * root.number;
        for (int i = 0; i < width; i++)
            y[i] = (x[i] - mean) * root.number * weight[i] + bias[i];
    }
}
",
    },
    Helper {
        name: "softmax",
        calls: &["exp"],
        text: "
static void $_softmax(const float *x, int rows, int columns, float *y)
{
    for (int r = 0; r < rows; r++, x += columns, y += columns) {
        float greatest = x[0], sum = 0.0f;
        for (int i = 1; i < columns; i++)
            greatest = x[i] > greatest ? x[i] : greatest;
        for (int i = 0; i < columns; i++)
            sum += y[i] = $_exp(x[i] - greatest);
        for (int i = 0; i < columns; i++)
            y[i] /= sum;
    }
}
",
    },
    Helper {
        name: "sum_rows",
        calls: &[],
        text: "
/* The sum of all rows, times a factor. */
static void $_sum_rows(const float *x, int rows, int columns, float factor, float *y)
{
    for (int c = 0; c < columns; c++) {
        float sum = 0.0f;
        for (int r = 0; r < rows; r++)
            sum += x[r * columns + c];
        y[c] = factor * sum;
    }
}
",
    },
    Helper {
        name: "one_hot",
        calls: &[],
        text: "
/* Each index as a vector of zeros with a one; the bounds of the indices repeat. */
static void $_one_hot(const float *x, int count, const uint32_t *below, int bounds, float *y)
{
    for (int k = 0; k < count; k++) {
        const int bound = (int)below[k % bounds], index = (int)x[k];
        for (int i = 0; i < bound; i++)
            *y++ = i == index ? 1.0f : 0.0f;
    }
}
",
    },
    Helper {
        name: "gather",
        calls: &[],
        text: "
static void $_gather(const float *x, const uint32_t *places, int count, float *y)
{
    for (int k = 0; k < count; k++)
        y[k] = x[places[k]];
}
",
    },
    Helper {
        name: "transpose",
        calls: &[],
        text: "
static void $_transpose(const float *x, int rows, int columns, float *y)
{
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++)
            *y++ = x[r * columns + c];
}
",
    },
    Helper {
        name: "greatest",
        calls: &[],
        text: "
/* The index of the greatest number; of equal ones the first. */
static int $_greatest(const float *x, int count)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}
",
    },
];
