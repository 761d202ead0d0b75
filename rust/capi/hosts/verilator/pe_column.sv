// A column of 128 processing elements of the systolic array, stationary operand held, one step a cycle.
//
// Row r takes its moving operand r cycles after row 0 (skewed outside), adds its product to what row r - 1 passed
// on in the cycle before, and passes the sum on: a result leaves the last row 128 cycles after its first operand
// went in. BF16: one product a row. MXFP8: four consecutive products a row, one float32 rounding each; eight rows
// share a block scale.
module pe_column #(
    parameter int ROWS  = 128,
    parameter bit MXFP8 = 1'b0
) (
    input  logic                 clock,
    input  logic                 load,               // take the stationary operand, do not step
    input  logic                 inject,             // for tests: add to `injected`, not to the row above
    input  logic                 stationary_is_e5m2,
    input  logic                 moving_is_e5m2,
    input  logic [ROWS-1:0][31:0] stationary,        // BF16 in the low half, or four elements, the first lowest
    input  logic [ROWS-1:0][ 7:0] stationary_scale,
    input  logic [ROWS-1:0][31:0] moving,
    input  logic [ROWS-1:0][ 7:0] moving_scale,
    input  logic [ROWS-1:0][31:0] injected,
    output logic [ROWS-1:0][31:0] held,
    output logic [ROWS-1:0][ 7:0] held_scale,
    output logic [ROWS-1:0][31:0] sums               // of each row, from the cycle before
);
  import trn3_pe::*;

  function automatic logic [31:0] step(input logic [31:0] weight, input logic [7:0] weight_scale,
                                       input logic [31:0] data, input logic [7:0] data_scale,
                                       input logic [31:0] sum);
    logic [31:0] s;
    s = sum;
    if (MXFP8) begin
      for (int i = 0; i < 4; i++)
        s = fma_step(unpack_mxfp8(moving_is_e5m2, data[8*i+:8], data_scale),
                     unpack_mxfp8(stationary_is_e5m2, weight[8*i+:8], weight_scale), s);
    end else begin
      s = fma_step(unpack_bf16(data[15:0]), unpack_bf16(weight[15:0]), s);
    end
    return s;
  endfunction

  logic [ROWS-1:0][31:0] passed_on;  // what the rows will hold after this clock

  always_comb
    for (int row = 0; row < ROWS; row++)
      passed_on[row] = step(held[row], held_scale[row], moving[row], moving_scale[row],
                            inject ? injected[row] : row == 0 ? 32'd0 : sums[row-1]);

  always_ff @(posedge clock) begin
    if (load) begin
      held <= stationary;
      held_scale <= stationary_scale;
    end else begin
      sums <= passed_on;
    end
  end
endmodule
