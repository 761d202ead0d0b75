// One accumulate step of a processing element: s' = float32(a * b + s), rounded once, to nearest even.
//
// Operands come unpacked (trn3_unpacked): value = (-1)^sign * mantissa * 2^exponent, or a special. The product
// is exact, so that one body serves every narrow format; subnormals are honoured, NaN results are canonical.
package trn3_pe;

  typedef struct packed {
    logic               sign;
    logic [15:0]        mantissa;  // 0: zero
    logic signed [11:0] exponent;  // of the mantissa's last bit
    logic               is_inf;
    logic               is_nan;
  } unpacked_t;

  localparam logic [31:0] FLOAT32_NAN = 32'h7fc00000;
  // Far enough that what is shifted out of the smaller addend can only be sticky.
  localparam int FAR = 60;

  function automatic unpacked_t unpack_bf16(input logic [15:0] bits);
    unpacked_t x;
    logic [7:0] biased;
    biased = bits[14:7];
    x.sign = bits[15];
    x.mantissa = {8'b0, biased != 8'd0, bits[6:0]};
    x.exponent = (biased == 8'd0 ? 12'sd1 : $signed({4'b0, biased})) - 12'sd134;
    x.is_inf = biased == 8'hff && bits[6:0] == 7'd0;
    x.is_nan = biased == 8'hff && bits[6:0] != 7'd0;
    return x;
  endfunction

  // An fp8 element (e5m2, else e4m3fn) times its block's scale, 2^(scale - 127). What float32 cannot hold
  // any more is infinite, as the contract has it for scaled operands.
  function automatic unpacked_t unpack_mxfp8(input logic is_e5m2, input logic [7:0] bits, input logic [7:0] scale);
    unpacked_t x;
    logic signed [11:0] power;
    int top;
    x.sign = bits[7];
    power = $signed({4'b0, scale}) - 12'sd127;
    if (is_e5m2) begin
      x.mantissa = {13'b0, bits[6:2] != 5'd0, bits[1:0]};
      x.exponent = (bits[6:2] == 5'd0 ? 12'sd1 : $signed({7'b0, bits[6:2]})) - 12'sd17 + power;
      x.is_inf = bits[6:0] == 7'h7c;
      x.is_nan = bits[6:0] > 7'h7c;
    end else begin
      x.mantissa = {12'b0, bits[6:3] != 4'd0, bits[2:0]};
      x.exponent = (bits[6:3] == 4'd0 ? 12'sd1 : $signed({8'b0, bits[6:3]})) - 12'sd10 + power;
      x.is_inf = 1'b0;
      x.is_nan = bits[6:0] == 7'h7f;
    end
    top = 0;
    for (int i = 0; i < 16; i++) if (x.mantissa[i]) top = i;
    if (x.mantissa != 16'd0 && int'(x.exponent) + top >= 128) x.is_inf = 1'b1;
    if (scale == 8'hff) x.is_nan = 1'b1;
    return x;
  endfunction

  // `value` shifted right by `count`; its last bit also says whether any set bit fell off.
  function automatic logic [95:0] shift_right_sticky(input logic [95:0] value, input int count);
    logic [95:0] kept;
    if (count >= 96) return {95'b0, |value};
    kept = value >> count;
    kept[0] = kept[0] | ((kept << count) != value);
    return kept;
  endfunction

  function automatic logic [31:0] fma_step(input unpacked_t a, input unpacked_t b, input logic [31:0] s);
    logic product_sign, product_zero, product_inf, s_sign, s_inf, s_nan, sign, guard, sticky;
    logic [31:0] product;
    logic [23:0] s_mantissa;
    logic [95:0] one, other, sum;
    logic [24:0] rounded;
    int product_exponent, s_exponent, difference, base, top, last, shift, biased;

    product_sign = a.sign ^ b.sign;
    product = {16'b0, a.mantissa} * {16'b0, b.mantissa};
    product_zero = product == 32'd0 && !a.is_inf && !b.is_inf;
    product_inf = a.is_inf || b.is_inf;
    product_exponent = int'(a.exponent) + int'(b.exponent);
    s_sign = s[31];
    s_inf = s[30:23] == 8'hff && s[22:0] == 23'd0;
    s_nan = s[30:23] == 8'hff && s[22:0] != 23'd0;
    s_mantissa = {s[30:23] != 8'd0, s[22:0]};
    s_exponent = (s[30:23] == 8'd0 ? 1 : int'(s[30:23])) - 150;

    if (a.is_nan || b.is_nan || s_nan) return FLOAT32_NAN;
    if (product_inf) begin
      if ((!a.is_inf && a.mantissa == 16'd0) || (!b.is_inf && b.mantissa == 16'd0)) return FLOAT32_NAN;
      if (s_inf && s_sign != product_sign) return FLOAT32_NAN;
      return {product_sign, 8'hff, 23'd0};
    end
    if (s_inf) return s;
    if (product_zero) begin
      if (s_mantissa != 24'd0) return s;
      return {product_sign & s_sign, 31'd0};
    end

    // Both on one grid, 2^base: the one of the larger exponent exactly, the other with a sticky last bit.
    difference = s_mantissa == 24'd0 ? 0 : product_exponent - s_exponent;
    if (difference >= 0) begin
      shift = difference < FAR ? difference : FAR;
      base = product_exponent - shift;
      one = {64'b0, product} << shift;
      other = shift_right_sticky({72'b0, s_mantissa}, difference - shift);
    end else begin
      shift = -difference < FAR ? -difference : FAR;
      base = s_exponent - shift;
      one = shift_right_sticky({64'b0, product}, -difference - shift);
      other = {72'b0, s_mantissa} << shift;
    end
    if (product_sign == s_sign) begin
      sum = one + other;
      sign = product_sign;
    end else if (one >= other) begin
      sum = one - other;
      sign = product_sign;
    end else begin
      sum = other - one;
      sign = s_sign;
    end
    if (sum == 96'd0) return 32'd0;

    top = 0;
    for (int i = 0; i < 96; i++) if (sum[i]) top = i;
    // The exponent of the result's last bit: 24 bits below the first, or that of subnormals.
    last = base + top - 23 > -149 ? base + top - 23 : -149;
    shift = last - base;
    if (shift > 0) begin
      guard = shift <= 96 && sum[shift-1];
      sticky = shift > 1 && (sum & ((96'd1 << (shift - 1)) - 96'd1)) != 96'd0;
      rounded = shift >= 96 ? 25'd0 : 25'(sum >> shift);
      if (guard && (sticky || rounded[0])) rounded = rounded + 25'd1;
    end else begin
      rounded = 25'(sum << -shift);
    end
    if (rounded[24]) begin
      rounded = rounded >> 1;
      last = last + 1;
    end
    biased = rounded[23] ? last + 150 : 0;
    if (biased >= 255) return {sign, 8'hff, 23'd0};
    return {sign, biased[7:0], rounded[22:0]};
  endfunction

endpackage
